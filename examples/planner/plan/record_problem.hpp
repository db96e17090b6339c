#pragma once
// A recorded step as a planner's problem, and the placements of its mixes.

#include "evaluate.hpp"
#include "step_program.hpp"

#include "planner/mix.hpp"
#include "planner/problem.hpp"

#include <vector>

namespace planner {

struct record_problem {
  problem asked;
  /// The same at the moment when most bytes are alive: only the tensors that are alive then, so that bound_step() of it
  /// holds for steps in which not all tensors are alive at one time. Often it is `asked`.
  problem at_peak;
  std::vector<cell> cell_of;  ///< of each tensor; tensors of the same name and layer are placed alike
  mix recorded;               ///< as it was when the step was recorded; of tensors alike in name and layer, the first's
};

/// Tensors that the trainer produces may not be remat, nor those whose definition makes some of a name and layer only.
[[nodiscard]] record_problem problem_of(const step_program& p, const budgets& within, double to_host_rate,
                                        double to_device_rate);

/// Per tensor.
[[nodiscard]] std::vector<ho::choice> placements_of(const record_problem& p, const mix& m);

}  // namespace planner
