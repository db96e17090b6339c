#pragma once
// What to save, offload and compute again, and at which micro batch, for the most throughput in so much memory.

#include "run.hpp"

#include <planner/search.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace replay {

struct budgets {
  double device_gib = 0, host_gib = 0;  // of one device, and of its part of a host
};
/// All that the machine has; it is as_rank's.
[[nodiscard]] budgets all_of(const vgpu::machine& machine);

struct planned {
  budgets within;
  double window_layers = 0;
  std::size_t first_micro_batch = 1;
  std::vector<planner::problem> problems;  // of that micro batch, the next …
  planner::answer found;
  double most_tflops = 0;  // per second and device: no mix exceeds it at any micro batch
  std::optional<run_options> best;
  outcome simulated{};

  [[nodiscard]] std::size_t micro_batch(std::size_t problem) const { return first_micro_batch + problem; }
  /// Per second and device, as the others.
  [[nodiscard]] double bound_tflops(std::size_t problem) const;
};

/// Looks at every micro batch for which the step has room, or at `micro_batch` alone where it is not 0. Our scheduler
/// has a window of `window_layers`. At most `evaluations` mixes are stepped. `machine` is as_rank's.
[[nodiscard]] planned plan(const description& d, const vgpu::machine& machine, const budgets& within,
                           double window_layers, std::size_t micro_batch, std::size_t evaluations,
                           const assumptions& with);

}  // namespace replay
