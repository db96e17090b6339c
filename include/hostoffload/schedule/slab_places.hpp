#pragma once
// A slab in which slots come and go at moments that are not known exactly before: each is given a place when it comes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace hostoffload::inline v0::detail {

/// Which hole a slot goes to, of those that hold it, and to which end of the hole.
enum class place_by : std::uint8_t {
  offset,     ///< the lowest
  size,       ///< the smallest
  neighbour,  ///< to the neighbour that leaves at nearly the same time, so that one hole is left by both
  wish,       ///< the one that it should go to, and no other
};

class slab_places {
public:
  static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

  /// A slab of so many bytes, of which `most` may be taken at one time.
  slab_places(std::size_t bytes, std::size_t most, place_by rule)
      : bytes_(bytes), most_(most), free_(most), rule_(rule) {}

  [[nodiscard]] std::size_t free_bytes() const noexcept { return free_; }
  /// The most that were taken at one time.
  [[nodiscard]] std::size_t peak() const noexcept { return peak_; }

  /// `until`: when it leaves, as far as that is known. `wished`: the offset to be taken if it is free, or nowhere.
  [[nodiscard]] std::optional<std::size_t> take(std::size_t bytes, double until, std::size_t wished) {
    if (bytes > free_) return std::nullopt;
    std::size_t chosen = taken_.size() + 1;
    std::size_t offset = 0;
    double best = std::numeric_limits<double>::infinity();
    const auto consider = [&](std::size_t before, std::size_t at, double cost) {
      if (cost >= best) return;
      best = cost;
      chosen = before;
      offset = at;
    };
    for (std::size_t i = 0; i <= taken_.size(); ++i) {
      const std::size_t begin = i == 0 ? 0 : taken_[i - 1].end;
      const std::size_t end = i == taken_.size() ? bytes_ : taken_[i].begin;
      if (end - begin < bytes) continue;
      if (wished >= begin && wished <= end - bytes) {
        chosen = i;
        offset = wished;
        break;
      }
      switch (rule_) {
        case place_by::wish:
          break;
        case place_by::offset:
          consider(i, begin, static_cast<double>(begin));
          break;
        case place_by::size:
          consider(i, begin, static_cast<double>(end - begin));
          break;
        case place_by::neighbour: {
          const double below = i == 0 ? border(until) : distance(taken_[i - 1].until, until);
          const double above = i == taken_.size() ? border(until) : distance(taken_[i].until, until);
          if (end - begin == bytes) {
            consider(i, begin, -1 / (1 + below + above));
          } else {
            consider(i, begin, below);
            consider(i, end - bytes, above);
          }
          break;
        }
      }
    }
    if (chosen > taken_.size()) return std::nullopt;
    taken_.insert(taken_.begin() + static_cast<std::ptrdiff_t>(chosen), {offset, offset + bytes, until});
    free_ -= bytes;
    peak_ = std::max(peak_, most_ - free_);
    return offset;
  }

  void give_back(std::size_t offset) {
    const auto found = std::lower_bound(taken_.begin(), taken_.end(), offset,
                                        [](const taken& t, std::size_t at) { return t.begin < at; });
    free_ += found->end - found->begin;
    taken_.erase(found);
  }

private:
  struct taken {
    std::size_t begin = 0;
    std::size_t end = 0;
    double until = 0;
  };
  static double distance(double a, double b) noexcept { return a < b ? b - a : a - b; }
  /// The ends of the slab are for what stays longest.
  [[nodiscard]] double border(double until) const noexcept {
    double longest = until;
    for (const taken& t : taken_) longest = std::max(longest, t.until);
    return longest - until;
  }

  std::size_t bytes_;
  std::size_t most_;
  std::size_t free_;
  std::size_t peak_ = 0;
  place_by rule_;
  std::vector<taken> taken_;  // by offset
};

}  // namespace hostoffload::inline v0::detail
