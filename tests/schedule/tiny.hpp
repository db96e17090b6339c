#pragma once
// Workloads small enough to work out by hand or to search through: bytes in units of 256, times in seconds.

#include "workload.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tiny {

inline constexpr std::size_t unit = 256;

struct item {
  std::size_t units = 1;
  std::size_t made = 0;
  std::vector<std::size_t> used{};
};

/// Rates in units per second.
inline schedules::workload step(const std::vector<double>& seconds, const std::vector<item>& items, double out = 1,
                                double in = 1) {
  schedules::workload w;
  w.name = "tiny";
  w.machine = "gb200";
  w.layers = 1;
  w.link = {out * unit, in * unit, (out + in) / 2 * unit};
  for (const double s : seconds) w.segments.push_back({s, schedules::pass::forward, 0, 0});
  for (const item& i : items) {
    w.tensors.push_back({"t" + std::to_string(w.tensors.size()), 0, 0, i.units * unit, i.made, i.used});
  }
  schedules::check(w);
  return w;
}

}  // namespace tiny
