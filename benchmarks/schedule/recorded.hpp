#pragma once
// A workload as the library records a step.

#include "workload.hpp"

#include <hostoffload/schedule/recorded_step.hpp>

namespace schedules {

/// Each segment lies between two points; each access is a use of its own. Copies have the latency that they have on the
/// workload's machine when they queue.
[[nodiscard]] hostoffload::recorded_step recorded(const workload& w);

}  // namespace schedules
