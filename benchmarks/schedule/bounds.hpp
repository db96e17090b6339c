#pragma once
// What no schedule can beat. This code knows workloads and arithmetic, and includes no scheduler.
//
// A schedule runs the segments in order on one compute stream. A tensor has bytes of the device (a slot) from the start
// of the segment that makes it to the end of its last use; or, between two accesses, it has none from the end of a copy
// out to the start of a copy in. The window is the largest sum of slots at one
// time: tensors that are kept count as well.

#include "workload.hpp"

#include <cstddef>

namespace schedules {

struct step_bound {
  double compute_s = 0;
  double out_s = 0;  ///< the first tensor's making, then all bytes out at the rate of that direction alone
  double in_s = 0;   ///< all bytes in at the rate of that direction alone, then the step from the last arrival on

  /// The largest of the three. Tensors that are kept move no bytes, so a wide window may do better than out_s and in_s.
  [[nodiscard]] double step_s() const noexcept;
  [[nodiscard]] bool copies_can_be_hidden() const noexcept { return compute_s >= out_s && compute_s >= in_s; }
};
[[nodiscard]] step_bound bound_step(const workload& w);

/// A step in a window of so many bytes takes at least this long, in seconds; infinite below the largest access.
[[nodiscard]] double least_step(const workload& w, double window_bytes);

/// A step of `step_s` seconds has at least a window of so many bytes. `step_s` is at least the time of compute.
/// least_window(w, bound_step(w).step_s()) is a lower bound of the least window with which the bound can be reached.
[[nodiscard]] double least_window(const workload& w, double step_s);

}  // namespace schedules
