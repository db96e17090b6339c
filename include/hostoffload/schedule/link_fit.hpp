#pragma once
// The rates of the link, from the times of a step's copies.

#include <hostoffload/schedule/recorded_step.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace hostoffload::inline v0::detail {

/// Seconds from the step's begin.
struct timed_copy {
  double begin = 0;
  double end = 0;
  std::size_t bytes = 0;
};

/// One direction, from its copies and those of the other. Copies that ran alone give latency and rate, by least squares
/// of time over bytes; the rest of the others' bytes, over the rest of their time, gives the rate while both run. A
/// rate that nothing was seen of is taken to be the other one. Nothing without copies.
[[nodiscard]] inline std::optional<link_direction> fit_link(const std::vector<timed_copy>& copies,
                                                            const std::vector<timed_copy>& others) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;  // of those alone
  double all_bytes = 0, all_s = 0;
  const auto shared = [&](const timed_copy& c) {
    double sum = 0;
    for (const timed_copy& o : others) sum += std::max(0.0, std::min(c.end, o.end) - std::max(c.begin, o.begin));
    return sum;
  };
  for (const timed_copy& c : copies) {
    const double seconds = c.end - c.begin;
    const auto bytes = static_cast<double>(c.bytes);
    all_bytes += bytes;
    all_s += seconds;
    if (shared(c) > 0.02 * seconds) continue;
    n += 1, x += bytes, y += seconds, xx += bytes * bytes, xy += bytes * seconds;
  }
  if (all_s <= 0) return std::nullopt;
  link_direction fit;
  if (n == 0) {
    fit.rate = fit.rate_while_both = all_bytes / all_s;
    return fit;
  }
  const double spread = n * xx - x * x;
  const double slope = spread > 1e-6 * xx ? (n * xy - x * y) / spread : 0;
  const bool line = slope > 0 && (y - slope * x) / n >= 0;
  fit.latency_s = line ? (y - slope * x) / n : 0;
  fit.rate = line ? 1 / slope : x / y;
  double both_bytes = 0, both_s = 0;
  for (const timed_copy& c : copies) {
    const double together = shared(c);
    if (together <= 0.02 * (c.end - c.begin)) continue;
    both_bytes += std::max(0.0, static_cast<double>(c.bytes) - (c.end - c.begin - fit.latency_s - together) * fit.rate);
    both_s += together;
  }
  fit.rate_while_both = both_s > 0 && both_bytes > 0 ? std::min(fit.rate, both_bytes / both_s) : fit.rate;
  return fit;
}

}  // namespace hostoffload::inline v0::detail
