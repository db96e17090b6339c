#pragma once
// A slab in which slots come and go at moments that are not known exactly before: each is given a place when it comes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
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

  /// Bytes in which something lies, or should not, until about a second.
  struct occupied {
    std::size_t begin = 0;
    std::size_t end = 0;
    double until = 0;
  };

  /// `until`: when it leaves, as far as that is known. `wished`: the offset to be taken if it is free, or nowhere.
  /// `reserved`: where it must not be.
  [[nodiscard]] std::optional<std::size_t> take(std::size_t bytes, double until, std::size_t wished,
                                                const std::vector<occupied>& reserved = {}) {
    if (bytes > free_) return std::nullopt;
    const std::optional<std::size_t> offset =
        reserved.empty() ? hole_in(taken_, bytes, until, wished) : hole_in(with(reserved), bytes, until, wished);
    if (!offset) return std::nullopt;
    const auto behind = std::lower_bound(taken_.begin(), taken_.end(), *offset,
                                         [](const occupied& t, std::size_t at) { return t.begin < at; });
    taken_.insert(behind, {*offset, *offset + bytes, until});
    free_ -= bytes;
    peak_ = std::max(peak_, most_ - free_);
    return offset;
  }

  void give_back(std::size_t offset) {
    const auto found = std::lower_bound(taken_.begin(), taken_.end(), offset,
                                        [](const occupied& t, std::size_t at) { return t.begin < at; });
    free_ += found->end - found->begin;
    taken_.erase(found);
  }

private:
  /// `all`: by offset, none in another.
  [[nodiscard]] std::optional<std::size_t> hole_in(const std::vector<occupied>& all, std::size_t bytes, double until,
                                                   std::size_t wished) const {
    std::optional<std::size_t> chosen;
    double best = std::numeric_limits<double>::infinity();
    const auto consider = [&](std::size_t at, double cost) {
      if (cost >= best) return;
      best = cost;
      chosen = at;
    };
    for (std::size_t i = 0; i <= all.size(); ++i) {
      const std::size_t begin = i == 0 ? 0 : all[i - 1].end;
      const std::size_t end = i == all.size() ? bytes_ : all[i].begin;
      if (end < begin || end - begin < bytes) continue;
      if (wished >= begin && wished <= end - bytes) return wished;
      switch (rule_) {
        case place_by::wish:
          break;
        case place_by::offset:
          consider(begin, static_cast<double>(begin));
          break;
        case place_by::size:
          consider(begin, static_cast<double>(end - begin));
          break;
        case place_by::neighbour: {
          const double below = i == 0 ? border(until) : distance(all[i - 1].until, until);
          const double above = i == all.size() ? border(until) : distance(all[i].until, until);
          if (end - begin == bytes) {
            consider(begin, -1 / (1 + below + above));
          } else {
            consider(begin, below);
            consider(end - bytes, above);
          }
          break;
        }
      }
    }
    return chosen;
  }

  /// What is taken, and what is reserved: no one lies in another.
  [[nodiscard]] std::vector<occupied> with(const std::vector<occupied>& reserved) const {
    std::vector<occupied> all;
    all.reserve(taken_.size() + reserved.size());
    std::merge(taken_.begin(), taken_.end(), reserved.begin(), reserved.end(), std::back_inserter(all),
               [](const occupied& a, const occupied& b) { return a.begin < b.begin; });
    std::size_t kept = 0;
    for (const occupied& o : all) {
      if (kept > 0 && o.end <= all[kept - 1].end) continue;
      all[kept++] = o;
    }
    all.resize(kept);
    return all;
  }

  static double distance(double a, double b) noexcept { return a < b ? b - a : a - b; }
  /// The ends of the slab are for what stays longest.
  [[nodiscard]] double border(double until) const noexcept {
    double longest = until;
    for (const occupied& t : taken_) longest = std::max(longest, t.until);
    return longest - until;
  }

  std::size_t bytes_;
  std::size_t most_;
  std::size_t free_;
  std::size_t peak_ = 0;
  place_by rule_;
  std::vector<occupied> taken_;  // by offset
};

}  // namespace hostoffload::inline v0::detail
