#pragma once
// Steps a workload under a schedule, and puts what came out beside what no schedule can beat.

#include "bounds.hpp"
#include "timeline.hpp"
#include "workload.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace schedules {

/// A schedule's name: that of a peer; "planned", this library with a window of its choice; "predicted", what its
/// planner says that this will be, without stepping anything; or "planned@PEER", this library with the window that the
/// peer has used.
[[nodiscard]] std::vector<std::string> schedule_names();

struct bounds {
  step_bound step{};
  double window_bytes = 0;  ///< least_window() for a step at the bound
};
[[nodiscard]] bounds bounds_of(const workload& w);

struct row {
  std::string workload{};
  std::string schedule{};
  std::string refused{};  ///< why the window is too small for the schedule; then nothing below holds
  double step_s = 0;
  double bound_s = 0;
  double exposed_s = 0;      ///< the step less the same step with an infinitely fast link
  double window_bytes = 0;   ///< a peer: the most that it held at one time; planned: its bound
  double reserve_bytes = 0;  ///< on top of it
  double least_window_bytes = 0;
  double peak_bytes = 0;                       ///< the most at one time that were accessed
  std::optional<double> planned_peak_bytes{};  ///< where a plan was followed
};

struct measured {
  row figures{};
  step_timeline timeline{};
  std::vector<residency> held{};  ///< of a peer; planned: what was accessed
};

/// Throws std::invalid_argument for a name that is none, std::runtime_error when the virtual GPU objects to a program.
[[nodiscard]] measured measure(const workload& w, const bounds& b, std::string_view schedule);

}  // namespace schedules
