#pragma once
// Steps a placement of a recorded step on the virtual GPU.

#include "step_program.hpp"

#include <hostoffload/virtual_gpu/machine.hpp>

#include <cstddef>
#include <vector>

namespace planner {

/// Bytes; the device's are those of the step's tensors.
struct budgets {
  std::size_t device = 0, host = 0;
};

/// What stepping it gave. Where it does not fit, the bytes are what it would take at least.
struct stepped {
  bool fits = false;
  double step_s = 0;
  std::size_t device_bytes = 0;  ///< of tensors outside the window, and the window
  std::size_t window_bytes = 0;
  std::size_t least_window_bytes = 0;
  std::size_t host_bytes = 0;
  bool planned = false;  ///< the scheduler made a plan, and the step followed it
};

/// A machine with that link and no other bound: kernels take the recorded time, host calls none.
[[nodiscard]] ho::virtual_gpu::machine machine_with(const ho::link_direction& to_host,
                                                    const ho::link_direction& to_device);
/// Likewise with the link of a described machine.
[[nodiscard]] ho::virtual_gpu::machine machine_with(const ho::virtual_gpu::machine& described);

/// How steps are run.
struct stepping {
  bool plan = false;       ///< the scheduler plans them (scheduler_options::plan)
  std::size_t window = 0;  ///< bytes; 0: all that the budget leaves, up to 1.25 times what the offloaded tensors have
};

/// Resets the virtual GPU and steps `p` with `placed` per tensor, until steps repeat; the last one counts.
[[nodiscard]] stepped step_with(const step_program& p, const std::vector<ho::choice>& placed, const budgets& within,
                                const ho::virtual_gpu::machine& m, const stepping& how = {});

}  // namespace planner
