#pragma once
// What a recorded step has to keep to. Each function says in words what is wrong with one part of it, and nothing where
// nothing is.

#include <hostoffload/schedule/recorded_step.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

using problem_text = std::optional<std::string>;

// Within these bounds no sum of a plan overflows.
inline constexpr double most_seconds = 1e9;
inline constexpr std::size_t most_bytes = std::size_t{1} << 60U;

/// Of the bytes of all lives, added up one by one.
[[nodiscard]] inline problem_text sum_problem(std::size_t bytes) {
  if (bytes <= most_bytes) return {};
  return "the lives have more than " + std::to_string(most_bytes) + " bytes together";
}

[[nodiscard]] inline problem_text segment_problem(double seconds) {
  if (seconds >= 0 && seconds <= most_seconds) return {};
  return "has no time: seconds of at least 0 and at most 1e9";
}

[[nodiscard]] inline problem_text wait_problem(double seconds) {
  if (seconds >= 0 && seconds <= most_seconds) return {};
  return "needs a latency of at least 0 and at most 1e9 seconds";
}

[[nodiscard]] inline problem_text link_problem(const link_direction& d) {
  const bool good = d.rate >= 1 && std::isfinite(d.rate) && d.rate_while_both >= 1 &&
                    std::isfinite(d.rate_while_both) && d.latency_s >= 0 && d.latency_s <= most_seconds &&
                    d.idle_s >= 0 && d.idle_s <= most_seconds;
  if (good) return {};
  return "needs rates of at least 1 byte per second, alone and with both directions, and latencies of at least 0 and "
         "at most 1e9 seconds";
}

[[nodiscard]] inline std::string title(const recorded_life& l) { return l.name + "[" + std::to_string(l.layer) + "]"; }

[[nodiscard]] inline problem_text life_problem(const recorded_life& l, std::size_t last_point) {
  if (l.bytes == 0) return "has no bytes";
  if (l.bytes > most_bytes) return "has more than " + std::to_string(most_bytes) + " bytes";
  if (l.uses.empty()) return "has no uses: the first one makes its values";
  for (std::size_t u = 0; u < l.uses.size(); ++u) {
    const recorded_use& use = l.uses[u];
    if (use.end <= last_point && use.begin < use.end && (u == 0 || use.begin >= l.uses[u - 1].end)) continue;
    return "has use " + std::to_string(u) + " from point " + std::to_string(use.begin) + " to " +
           std::to_string(use.end) + ": uses begin before they end, one behind the other, and end at " +
           std::to_string(last_point) + " at the latest";
  }
  return {};
}

/// Of one tensor that lives more than once.
[[nodiscard]] inline problem_text same_tensor_problem(const recorded_life& before, const recorded_life& l) {
  if (before.name != l.name || before.layer != l.layer || before.bytes != l.bytes || before.placed != l.placed)
    return "is of tensor " + std::to_string(l.tensor) + ", as is " + title(before) + ", which differs";
  if (!before.uses.empty() && !l.uses.empty() && l.uses.front().begin < before.uses.back().end)
    return "begins while an earlier life of its tensor goes on";
  return {};
}

/// Of makings, in their order; how they lie within one another.
class making_check {
public:
  explicit making_check(const recorded_step& step) : step_(step), made_first_(step.lives.size(), false) {}

  [[nodiscard]] problem_text next(const recorded_making& m) {
    const std::size_t last_point = step_.segment_s.size();
    if (m.begin >= m.end || m.end > last_point) {
      return "is from point " + std::to_string(m.begin) + " to " + std::to_string(m.end) +
             ": it begins before it ends, at " + std::to_string(last_point) + " at the latest";
    }
    while (!around_.empty() && around_.back().end <= m.begin) around_.pop_back();
    if (m.begin < begun_ || (!around_.empty() && m.end > around_.back().end))
      return "begins before the making in front of it, or ends behind the one that it lies within";
    begun_ = m.begin;
    around_.push_back({m.begin, m.end});
    if (m.makes.empty()) return "makes nothing";
    for (const std::uint32_t life : m.makes) {
      if (life >= step_.lives.size()) return "makes life " + std::to_string(life) + ", which there is not";
      if (m.again) continue;
      const recorded_life& l = step_.lives[life];
      if (made_first_[life] || l.uses.empty() || l.uses.front() != recorded_use{m.begin, m.end})
        return "does not make " + title(l) + " first: that is its first use, by one making";
      made_first_[life] = true;
    }
    for (const recorded_input& i : m.inputs) {
      if (i.life >= step_.lives.size()) return "awaits life " + std::to_string(i.life) + ", which there is not";
      const recorded_life& l = step_.lives[i.life];
      if (i.at < m.begin || i.at >= m.end || l.uses.empty() || l.uses.front().end > i.at) {
        return "awaits " + title(l) + " at point " + std::to_string(i.at) +
               ": inputs are awaited within the making, when they have been made";
      }
    }
    return {};
  }
  /// By one of the makings so far; otherwise the trainer produced it.
  [[nodiscard]] bool is_defined(std::size_t life) const { return made_first_[life]; }

private:
  const recorded_step& step_;
  std::vector<bool> made_first_;
  std::vector<recorded_use> around_;
  std::uint32_t begun_ = 0;
};

}  // namespace hostoffload::inline v0::detail
