#pragma once
// The rates of the link, from the times of a step's copies.

#include <hostoffload/schedule/recorded_step.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

/// Seconds from the step's begin.
struct timed_copy {
  double begin = 0;
  double end = 0;
  std::size_t bytes = 0;
};

/// Least squares over the copies of one direction. A copy that shares the link for `shared` seconds takes
///   latency + bytes / rate + shared · (1 - rate_while_both / rate),
/// which is linear in these three.
class link_regression {
public:
  void add(double bytes, double shared, double seconds) noexcept {
    const std::array<double, unknowns> x{1, bytes, shared};
    for (std::size_t i = 0; i < unknowns; ++i) {
      for (std::size_t j = 0; j < unknowns; ++j) sums_[i][j] += x[i] * x[j];
      sums_[i][unknowns] += x[i] * seconds;
    }
  }

  /// Without latency, or without the part of what is shared, where that is said. Nothing where the copies do not tell
  /// these apart, or only with values that no link has.
  [[nodiscard]] std::optional<link_direction> solve(bool with_latency, bool with_shared) const noexcept {
    const std::array<bool, unknowns> used{with_latency, true, with_shared};
    auto rows = sums_;
    for (std::size_t i = 0; i < unknowns; ++i) {
      if (!used[i]) continue;
      if (!(rows[i][i] > least_pivot * sums_[i][i])) return std::nullopt;
      for (std::size_t r = 0; r < unknowns; ++r) {
        if (r == i || !used[r]) continue;
        const double factor = rows[r][i] / rows[i][i];
        for (std::size_t c = i; c <= unknowns; ++c) rows[r][c] -= factor * rows[i][c];
      }
    }
    const auto value = [&](std::size_t i) { return used[i] ? rows[i][unknowns] / rows[i][i] : 0.0; };
    const double latency = value(0), seconds_per_byte = value(1), slowed = value(2);
    if (!(latency >= 0) || !(seconds_per_byte > 0) || !(slowed >= 0) || !(slowed <= most_slowed)) return std::nullopt;
    return link_direction{.rate = 1 / seconds_per_byte,
                          .rate_while_both = with_shared ? (1 - slowed) / seconds_per_byte : 0,
                          .latency_s = latency};
  }

private:
  static constexpr std::size_t unknowns = 3;
  static constexpr double least_pivot = 1e-8;  // of the diagonal: what is left of it is not rounding
  static constexpr double most_slowed = 0.9;   // copies that were never alone would else fit with no bytes at all
  std::array<std::array<double, unknowns + 1>, unknowns> sums_{};
};

/// One direction, from its copies and those of the other, both in the order in which they ran, one at a time. What the
/// copies do not tell is 0: the latency, or else the rate while both run. Nothing without copies.
[[nodiscard]] inline std::optional<link_direction> fit_link(const std::vector<timed_copy>& copies,
                                                            const std::vector<timed_copy>& others) {
  link_regression seen;
  double bytes = 0;
  double busy_s = 0;
  std::size_t first = 0;  // of the others, that has not ended before
  for (const timed_copy& c : copies) {
    while (first < others.size() && others[first].end <= c.begin) ++first;
    double shared = 0;
    for (std::size_t i = first; i < others.size() && others[i].begin < c.end; ++i)
      shared += std::min(c.end, others[i].end) - std::max(c.begin, others[i].begin);
    seen.add(static_cast<double>(c.bytes), shared, c.end - c.begin);
    bytes += static_cast<double>(c.bytes);
    busy_s += c.end - c.begin;
  }
  if (busy_s <= 0) return std::nullopt;
  for (const auto& [with_latency, with_shared] :
       {std::pair{true, true}, std::pair{false, true}, std::pair{true, false}, std::pair{false, false}}) {
    auto fit = seen.solve(with_latency, with_shared);
    if (!fit) continue;
    // Copies so small that they are mostly latency do not tell how data shares the link.
    if (fit->latency_s * static_cast<double>(copies.size()) > busy_s / 2) fit->rate_while_both = 0;
    return fit;
  }
  return link_direction{.rate = bytes / busy_s};
}

}  // namespace hostoffload::inline v0::detail
