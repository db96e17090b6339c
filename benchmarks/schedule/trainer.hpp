#pragma once
// A trainer over the library's public API, generated from a workload: each segment leases the tensors that it makes and
// uses, launches its kernel and lets go.

#include "timeline.hpp"
#include "workload.hpp"

#include <cstddef>

namespace schedules {

struct trained_step {
  step_timeline timeline{};
  std::size_t window_bytes = 0;  ///< the bound, without the reserve
  std::size_t reserve_bytes = 0;
  double planned_peak_bytes = 0;  ///< what the scheduler says that the step holds at most
};

/// Steps the workload on the current virtual GPU until the scheduler has settled, and measures the step after that.
/// `window` and `reserve` make up the scheduler's window. Throws what the library throws: hostoffload::window_error
/// when the window is too small.
[[nodiscard]] trained_step train(const workload& w, std::size_t window, std::size_t reserve);

}  // namespace schedules
