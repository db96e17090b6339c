#pragma once
// The command line of plan.

#include "evaluate.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace planner {

struct options {
  std::string record;  // file
  budgets within;
  std::string machine;  // whose link takes the place of the record's; empty: the record's
  std::string header;   // where not empty, file for the placement table
  std::string json;     // where not empty, file for the results
  std::size_t evaluations = 1000;
};

/// Nothing where the program is to end with `exit_code`: help was printed, or one line on standard error.
std::optional<options> parse(int argc, const char* const* argv, int& exit_code);

}  // namespace planner
