#pragma once
// Places in a slab that are kept free for the time in which others must be there.

#include <hostoffload/schedule/least_stays.hpp>
#include <hostoffload/schedule/slab_places.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hostoffload::inline v0::detail {

/// Where each of the least stays is, or will have room whatever happens until then: one that goes elsewhere goes where
/// none of the others must be while it must.
class place_reservations {
public:
  /// Of none (null), slots go where there is room at the time.
  explicit place_reservations(const least_stays* least) : least_(least) {
    if (least_ == nullptr) return;
    for (std::size_t i = 0; i < least_->size(); ++i) offsets_.push_back((*least_)[i].offset);
  }

  /// Bytes that others need at some time of a life's stay, by offset. Until the next call.
  [[nodiscard]] const std::vector<slab_places::occupied>& against(std::uint32_t life, bool is_back) {
    found_.clear();
    if (least_ == nullptr) return found_;
    for (const std::uint32_t other : least_->others(stay(life, is_back)))
      found_.push_back({offsets_[other], offsets_[other] + (*least_)[other].bytes, 0});
    std::sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    return found_;
  }
  void move(std::uint32_t life, bool is_back, std::size_t offset) {
    if (least_ != nullptr) offsets_[stay(life, is_back)] = offset;
  }

private:
  [[nodiscard]] std::size_t stay(std::uint32_t life, bool is_back) const noexcept {
    return least_->of(life) + (is_back ? 1 : 0);
  }

  const least_stays* least_;
  std::vector<std::size_t> offsets_;
  std::vector<slab_places::occupied> found_;
};

}  // namespace hostoffload::inline v0::detail
