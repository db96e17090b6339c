#pragma once
// What no mix can beat.

#include "problem.hpp"

namespace planner {

/// No mix that keeps the budgets steps in fewer seconds; infinite where none can keep them. The proof is in bound.cpp.
[[nodiscard]] double bound_step(const problem& p);

}  // namespace planner
