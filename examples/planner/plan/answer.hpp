#pragma once
// The best placement of a recorded step, beside the plain ones.

#include "evaluate.hpp"
#include "record_problem.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace planner {

struct tried_placement {
  std::string name;
  mix placed;
  stepped seen;
};

struct record_answer {
  std::vector<tried_placement> plain;   ///< save, offload and remat of all that may be, and as recorded
  std::optional<tried_placement> best;  ///< nothing: none that was tried fits
  stepped best_planned;                 ///< the same when the scheduler plans its steps
  std::size_t evaluations = 0;
  double least_step_s = 0;  ///< no placement within the budgets steps faster
};

/// Throws std::runtime_error, one line, where nothing fits: with what is missing at least.
[[nodiscard]] record_answer answer_of(const step_program& program, const record_problem& p, const budgets& within,
                                      const ho::virtual_gpu::machine& m, std::size_t evaluations);

}  // namespace planner
