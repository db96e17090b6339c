#pragma once
// The best mix under the budgets: a fast model of the step says what to try, and what is tried is stepped.

#include "mix.hpp"
#include "problem.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace planner {

/// What a step with a mix did.
struct evaluation {
  bool fits = false;  ///< into both budgets
  double step_s = 0;
  std::size_t device_peak = 0;  ///< bytes, with device_beside
  std::size_t host_bytes = 0;
};

/// Steps a mix of the n-th problem. Where it does not fit, the bytes say what it would need, if that is known, else 0.
using evaluator = std::function<evaluation(std::size_t n, const mix& m)>;

struct candidate {
  std::size_t problem = 0;
  mix placed;
  evaluation seen;
};

struct search_options {
  std::size_t evaluations = 200;  ///< at most
};

struct answer {
  std::optional<candidate> best;    ///< nothing: no mix that was tried fits
  std::vector<candidate> tried;     ///< in the order of the evaluations
  std::vector<double> least_steps;  ///< of each problem: bound_step()
  double most_rate = 0;             ///< work per second that no mix of any problem exceeds
  std::string missing;              ///< where nothing fits: one line that says what is missing
};

/// `problems` differ in their batch: the same names and layers. Deterministic. The best is that of the most work per
/// second. Throws what check() and the evaluator throw.
[[nodiscard]] answer search(const std::vector<problem>& problems, const evaluator& step,
                            const search_options& options = {});

}  // namespace planner
