#pragma once
// The mixes next to a mix, and the mixes to start from.

#include "bound.hpp"
#include "mix.hpp"
#include "problem.hpp"

#include <cstddef>
#include <functional>
#include <vector>

namespace planner {

/// Names that change together: each one alone, and those that one definition makes.
[[nodiscard]] std::vector<std::vector<std::size_t>> units_of(const problem& p);

/// Calls `visit` with each mix in which one unit has another choice in a range of its layers, in the first or in the
/// last 1, 2, 4 … of them; until `visit` returns true. Names that do not permit the choice keep theirs.
void for_neighbours(const problem& p, const std::vector<std::vector<std::size_t>>& units, const mix& m,
                    const std::function<bool(const mix&)>& visit);

/// `chosen` for every name that permits it, else the first of save, offload and remat that it permits.
[[nodiscard]] mix uniform(const problem& p, ho::choice chosen);

/// What each definition's tensors would rather be at these prices.
[[nodiscard]] mix at_prices(const problem& p, const relaxation& prices);

/// How many mixes there are; more than `most` counts as one more.
[[nodiscard]] std::size_t count_mixes(const problem& p, std::size_t most);
void for_all_mixes(const problem& p, const std::function<void(const mix&)>& visit);

}  // namespace planner
