#pragma once
// The mix as a header with a placement table, which compiles into the trainer.

#include "mix.hpp"
#include "problem.hpp"

#include <string>
#include <vector>

namespace planner {

/// `template <class Name> using planned_placement = ho::placement<Name, …>;` with the rules of `m`; ranges count from
/// the end that is nearer. `notes` are lines of comment above it: what it was planned for. `names` are the trainer's
/// enumerators. Throws std::invalid_argument where a name is no identifier.
[[nodiscard]] std::string placement_header(const problem& p, const mix& m, const std::vector<std::string>& notes);

}  // namespace planner
