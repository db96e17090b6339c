#pragma once
// The rates of the link, from the times of a step's copies.

#include <hostoffload/schedule/recorded_step.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

namespace hostoffload::inline v0::detail {

/// Seconds from the step's begin.
struct timed_copy {
  double begin = 0;
  double end = 0;
  std::size_t bytes = 0;
  bool idle = false;  ///< nothing ran in its direction right before it: that takes longer to start
};

/// Least squares over the copies of one direction. A copy that carries data for `shared` seconds while the other
/// direction does takes
///   bytes / rate + shared · (1 - rate_while_both / rate) + latency, and more where it found its direction idle,
/// which is linear in these four, and none of them is below 0.
class link_regression {
public:
  struct solution {
    link_direction speed{};  ///< rate_while_both is 0 where the copies do not tell it
    bool whole = false;      ///< the copies tell rates and latency
  };

  void add(double bytes, double shared, bool idle, double seconds) noexcept {
    const std::array<double, unknowns> x{bytes, shared, 1, idle ? 1.0 : 0.0};
    for (std::size_t i = 0; i < unknowns; ++i) {
      for (std::size_t j = 0; j < unknowns; ++j) sums_[i][j] += x[i] * x[j];
      sums_[i][unknowns] += x[i] * seconds;
    }
  }
  [[nodiscard]] double copies() const noexcept { return sums_[latency_at][latency_at]; }

  /// Nothing without copies that took time. What the copies do not tell, and what they tell less of than is 0, is left
  /// out, one after the other.
  [[nodiscard]] std::optional<solution> solve() const noexcept {
    choice_of used{true, true, true, true};
    choice_of told{true, true, true, true};
    while (true) {
      equations rows = sums_;
      if (const std::size_t unknown = eliminate(rows, used); unknown != unknowns) {
        if (unknown == bytes_at) return std::nullopt;
        used[unknown] = told[unknown] = false;
        continue;
      }
      const auto value = [&](std::size_t i) { return used[i] ? rows[i][unknowns] / rows[i][i] : 0.0; };
      if (value(shared_at) > most_slowed) {
        used[shared_at] = told[shared_at] = false;
        continue;
      }
      const auto wrong =
          std::find_if(least_first.begin(), least_first.end(), [&](std::size_t i) { return value(i) < 0; });
      if (wrong != least_first.end()) {
        used[*wrong] = false;
        if (*wrong == shared_at)
          told[shared_at] = sums_[shared_at][latency_at] > least_shared * sums_[latency_at][unknowns];
        continue;
      }
      if (!(value(bytes_at) > 0)) {  // larger copies took no longer
        const auto other = std::find_if(most_first.begin(), most_first.end(), [&](std::size_t i) { return used[i]; });
        if (other == most_first.end()) return std::nullopt;
        used[*other] = told[*other] = false;
        continue;
      }
      const double rate = 1 / value(bytes_at);
      return solution{.speed = {.rate = rate,
                                .rate_while_both = told[shared_at] ? (1 - value(shared_at)) * rate : 0,
                                .latency_s = value(latency_at),
                                .idle_s = value(idle_at)},
                      .whole = told[shared_at] && told[latency_at]};
    }
  }

private:
  static constexpr std::size_t unknowns = 4;
  static constexpr std::size_t bytes_at = 0, shared_at = 1, latency_at = 2, idle_at = 3;
  static constexpr std::array least_first{idle_at, shared_at, latency_at};  // to be left out
  static constexpr std::array most_first{latency_at, idle_at, shared_at};   // so that bytes explain something
  static constexpr double least_pivot = 1e-8;   // of the diagonal: what is left of it is not rounding
  static constexpr double most_slowed = 0.9;    // copies that were never alone would else fit with no bytes at all
  static constexpr double least_shared = 0.01;  // of all seconds: enough to say that sharing slows nothing
  using choice_of = std::array<bool, unknowns>;
  using equations = std::array<std::array<double, unknowns + 1>, unknowns>;

  /// The first of those used that others explain, or `unknowns` when each has a value.
  static std::size_t eliminate(equations& rows, const choice_of& used) noexcept {
    const equations before = rows;
    for (std::size_t i = 0; i < unknowns; ++i) {
      if (!used[i]) continue;
      if (!(rows[i][i] > least_pivot * before[i][i])) return i;
      for (std::size_t r = 0; r < unknowns; ++r) {
        if (r == i || !used[r]) continue;
        const double factor = rows[r][i] / rows[i][i];
        for (std::size_t c = i; c <= unknowns; ++c) rows[r][c] -= factor * rows[i][c];
      }
    }
    return unknowns;
  }

  equations sums_{};
};

/// The copies of a direction, in the order in which they ran, one at a time, and what is known of it so far.
struct timed_direction {
  const std::vector<timed_copy>* copies = nullptr;
  link_regression::solution known{};

  /// When the copy begins to carry data.
  [[nodiscard]] double carries_from(const timed_copy& c) const noexcept {
    return std::min(c.end, c.begin + known.speed.latency_s + (c.idle ? known.speed.idle_s : 0));
  }
};

/// Least squares over the copies of one direction.
[[nodiscard]] inline std::optional<link_regression::solution> solve_link(const timed_direction& way,
                                                                         const timed_direction& opposite) {
  const std::vector<timed_copy>& others = *opposite.copies;
  link_regression every;
  link_regression queued;
  std::size_t first = 0;  // of the others, that has not ended before
  for (const timed_copy& c : *way.copies) {
    const double begin = way.carries_from(c);
    while (first < others.size() && others[first].end <= begin) ++first;
    double shared = 0;
    for (std::size_t i = first; i < others.size() && others[i].begin < c.end; ++i)
      shared += std::max(0.0, std::min(c.end, others[i].end) - std::max(begin, opposite.carries_from(others[i])));
    every.add(static_cast<double>(c.bytes), shared, c.idle, c.end - c.begin);
    if (!c.idle) queued.add(static_cast<double>(c.bytes), shared, false, c.end - c.begin);
  }
  // How long an idle direction takes to start varies: copies that found one count where the others are few or do not
  // tell all.
  const auto all = every.solve();
  auto most = 2 * queued.copies() >= every.copies() ? queued.solve() : std::nullopt;
  if (!most || !most->whole || !all) return all;
  most->speed.idle_s = all->speed.idle_s;
  return most;
}

/// One direction, from its copies and those of the other, both in the order in which they ran, one at a time. What the
/// copies do not tell is 0: the latencies, or else the rate while both run. Nothing without copies.
[[nodiscard]] inline std::optional<link_direction> fit_link(const std::vector<timed_copy>& copies,
                                                            const std::vector<timed_copy>& others) {
  timed_direction asked{&copies};
  timed_direction met{&others};
  std::optional<link_regression::solution> fit;
  constexpr int passes = 8;  // each knows the latencies better, and so what is shared
  for (int i = 0; i < passes; ++i) {
    fit = solve_link(asked, met);
    met.known = solve_link(met, asked).value_or(link_regression::solution{});
    asked.known = fit.value_or(link_regression::solution{});
  }
  if (!fit) return std::nullopt;
  // Copies so small that they are mostly latency do not tell how data shares the link.
  double busy_s = 0;
  for (const timed_copy& c : copies) busy_s += c.end - c.begin;
  if (fit->speed.latency_s * static_cast<double>(copies.size()) > busy_s / 2) fit->speed.rate_while_both = 0;
  return fit->speed;
}

}  // namespace hostoffload::inline v0::detail
