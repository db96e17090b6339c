#pragma once
// A workload as the library records a step.

#include "workload.hpp"

#include <hostoffload/schedule/recorded_step.hpp>

namespace schedules {

/// Each access is a use of its own, leased as the trainer in trainer.cpp does: before the segment those that it reads,
/// then those that it makes; behind it those that it made end first. Copies have the latency that they have on the
/// workload's machine when they queue.
[[nodiscard]] hostoffload::recorded_step recorded(const workload& w);

}  // namespace schedules
