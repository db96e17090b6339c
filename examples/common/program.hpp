#pragma once
// The program of an example: trains under the placements that the command line asks for, and prints what each one
// costs; see options.cpp for what can be chosen.

#include "example.hpp"

namespace examples {

/// For main. The exit code is 2 where the command line is at fault, 1 where the run is; each with one line on standard
/// error.
int run_program(example& of, int argc, const char* const* argv);

}  // namespace examples
