#pragma once
// The stays of a step that nothing can shorten, and places for them in a slab.

#include <hostoffload/schedule/prepared_step.hpp>
#include <hostoffload/schedule/slab_packing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace hostoffload::inline v0::detail {

/// From the begin of a life to its gap, and from the gap to its end: then it must be on the device, whatever is copied.
/// Times are points. With each stay in its place there is always a step: every slot has room when it is needed.
class least_stays {
public:
  explicit least_stays(const prepared_step& step) {
    const auto at = [](step_point p) { return static_cast<double>(p); };
    for (const planned_life& l : step.lives()) {
      first_.push_back(stays_.size());
      stays_.push_back({.begin = at(l.begin), .end = at(l.has_gap ? l.gap_begin : l.end), .bytes = l.slot_bytes});
      if (l.has_gap) stays_.push_back({.begin = at(l.gap_end), .end = at(l.end), .bytes = l.slot_bytes});
    }
    bytes_ = slab_packing(stays_).pack();
    find_others();
  }

  /// The stay of a life until its gap; the next one is that behind it.
  [[nodiscard]] std::size_t of(std::uint32_t life) const noexcept { return first_[life]; }
  [[nodiscard]] const slab_stay& operator[](std::size_t stay) const noexcept { return stays_[stay]; }
  [[nodiscard]] std::size_t size() const noexcept { return stays_.size(); }
  /// Those that have some time in common with this one.
  [[nodiscard]] const std::vector<std::uint32_t>& others(std::size_t stay) const noexcept { return others_[stay]; }
  /// Of the slab.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
  void find_others() {
    others_.resize(stays_.size());
    std::vector<std::uint32_t> by_begin(stays_.size());
    std::iota(by_begin.begin(), by_begin.end(), 0U);
    std::stable_sort(by_begin.begin(), by_begin.end(),
                     [this](std::uint32_t a, std::uint32_t b) { return stays_[a].begin < stays_[b].begin; });
    for (auto a = by_begin.begin(); a != by_begin.end(); ++a) {
      for (auto b = a + 1; b != by_begin.end() && stays_[*b].begin < stays_[*a].end; ++b) {
        others_[*a].push_back(*b);
        others_[*b].push_back(*a);
      }
    }
  }

  std::vector<slab_stay> stays_;
  std::vector<std::size_t> first_;
  std::vector<std::vector<std::uint32_t>> others_;
  std::size_t bytes_ = 0;
};

}  // namespace hostoffload::inline v0::detail
