#pragma once
// What no mix can beat.

#include "problem.hpp"

namespace planner {

/// No mix that keeps the budgets steps in fewer seconds; infinite where none can keep them. The proof is in bound.cpp.
[[nodiscard]] double bound_step(const problem& p);

/// The same bound, and what one more byte of each budget would take off it: seconds per byte.
struct relaxation {
  double step_s = 0;
  double device_price = 0, host_price = 0;
};
[[nodiscard]] relaxation relax(const problem& p);

}  // namespace planner
