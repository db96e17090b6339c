#pragma once
// Fixed offsets in one slab for slots whose lifetimes are known.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

/// A slot's bytes from `begin` to `end`; two stays that overlap in time need bytes of their own.
struct slab_stay {
  double begin = 0;
  double end = 0;
  std::size_t bytes = 0;
  std::size_t offset = 0;
};

class slab_packing {
public:
  static constexpr std::size_t usual_work = 40'000'000;

  explicit slab_packing(std::vector<slab_stay>& stays) : stays_(stays) {}

  /// Sets the offsets; bytes of the slab. In several orders each stay goes to the lowest place that is free all its
  /// time; then the best of these orders is changed at random, mostly for what lies on top, and a change that makes the
  /// slab larger is kept at first and less and less (simulated annealing). The largest sum of bytes at one time is the
  /// least that there is. `work`: about so many comparisons of two stays.
  std::size_t pack(std::size_t work = usual_work) {
    if (stays_.empty()) return 0;
    const std::size_t least = largest_sum();
    std::vector<std::uint32_t> order(stays_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::vector<std::uint32_t> best_order;
    std::size_t best = ~std::size_t{0};
    for (const auto before : {&larger, &larger_and_longer, &longer, &earlier}) {
      std::stable_sort(order.begin(), order.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return before(stays_[a], stays_[b]); });
      const std::size_t size = place(order);
      if (size < best) {
        best = size;
        best_order = order;
      }
    }
    std::minstd_rand draw;
    std::size_t size = place(order = best_order);
    std::size_t top = top_of(order);
    const std::size_t tries = std::min(work / (stays_.size() * stays_.size()), most_tries);
    for (std::size_t i = 0; i < tries && best > least + least / 200; ++i) {
      const std::size_t from = draw() % 2 == 0 ? draw() % order.size() : top;
      const std::size_t to = draw() % order.size();
      std::vector<std::uint32_t> next = order;
      const auto at = [&next](std::size_t n) { return next.begin() + static_cast<std::ptrdiff_t>(n); };
      from < to ? std::rotate(at(from), at(from + 1), at(to + 1)) : std::rotate(at(to), at(from), at(from + 1));
      const std::size_t tried = place(next);
      const double share = static_cast<double>(draw()) / static_cast<double>(std::minstd_rand::max());
      const double allowed =
          first_allowed * static_cast<double>(tries - i) / static_cast<double>(tries) * share * share;
      if (static_cast<double>(tried) > static_cast<double>(size) * (1 + allowed)) continue;
      size = tried;
      order = std::move(next);
      top = top_of(order);
      if (size < best) {
        best = size;
        best_order = order;
      }
    }
    return place(best_order);
  }

  [[nodiscard]] std::size_t largest_sum() const {
    std::vector<std::pair<double, std::size_t>> begins;
    std::vector<std::pair<double, std::size_t>> ends;
    for (const slab_stay& s : stays_) {
      if (s.begin >= s.end) continue;
      begins.emplace_back(s.begin, s.bytes);
      ends.emplace_back(s.end, s.bytes);
    }
    std::sort(begins.begin(), begins.end());
    std::sort(ends.begin(), ends.end());
    std::size_t sum = 0;
    std::size_t most = 0;
    for (std::size_t b = 0, e = 0; b < begins.size(); ++b) {
      for (; ends[e].first <= begins[b].first; ++e) sum -= ends[e].second;
      sum += begins[b].second;
      most = std::max(most, sum);
    }
    return most;
  }

private:
  static constexpr std::size_t most_tries = 20'000;
  static constexpr double first_allowed = 0.03;  // larger than what is changed

  static bool larger(const slab_stay& a, const slab_stay& b) { return a.bytes > b.bytes; }
  static bool longer(const slab_stay& a, const slab_stay& b) { return a.end - a.begin > b.end - b.begin; }
  static bool earlier(const slab_stay& a, const slab_stay& b) { return a.begin < b.begin; }
  static bool larger_and_longer(const slab_stay& a, const slab_stay& b) {
    return static_cast<double>(a.bytes) * (a.end - a.begin) > static_cast<double>(b.bytes) * (b.end - b.begin);
  }

  /// Where in the order is what lies on top.
  [[nodiscard]] std::size_t top_of(const std::vector<std::uint32_t>& order) const {
    return static_cast<std::size_t>(std::max_element(order.begin(), order.end(),
                                                     [&](std::uint32_t a, std::uint32_t b) {
                                                       return stays_[a].offset + stays_[a].bytes <
                                                              stays_[b].offset + stays_[b].bytes;
                                                     }) -
                                    order.begin());
  }

  std::size_t place(const std::vector<std::uint32_t>& order) {
    std::size_t size = 0;
    std::vector<std::uint32_t> by_offset;  // those placed
    by_offset.reserve(order.size());
    for (const std::uint32_t i : order) {
      slab_stay& s = stays_[i];
      std::size_t offset = 0;
      for (const std::uint32_t o : by_offset) {
        const slab_stay& other = stays_[o];
        if (other.begin >= s.end || other.end <= s.begin) continue;
        if (other.offset >= offset + s.bytes) break;
        offset = std::max(offset, other.offset + other.bytes);
      }
      s.offset = offset;
      size = std::max(size, offset + s.bytes);
      by_offset.insert(std::upper_bound(by_offset.begin(), by_offset.end(), offset,
                                        [&](std::size_t at, std::uint32_t o) { return at < stays_[o].offset; }),
                       i);
    }
    return size;
  }

  std::vector<slab_stay>& stays_;
};

}  // namespace hostoffload::inline v0::detail
