#pragma once
// A trainer over the library's public API, generated from a workload: each segment leases the tensors that it makes and
// uses, launches its kernel and lets go.

#include "timeline.hpp"
#include "workload.hpp"

#include <cstddef>

namespace schedules {

struct trained_step {
  step_timeline timeline{};
  bool planned = false;           ///< the step followed a plan; otherwise it looked ahead, in window and reserve
  double planned_peak_bytes = 0;  ///< the most at one time, as the plan says
};

/// Steps the workload on the current virtual GPU until the scheduler has recorded, timed and planned it, and measures
/// the step after that. The scheduler's window is `window` for the plan and `reserve` for steps that depart from it.
/// Throws what the library throws: hostoffload::window_error when the window is too small.
[[nodiscard]] trained_step train(const workload& w, std::size_t window, std::size_t reserve);

}  // namespace schedules
