#pragma once
// Small training runs of a Llama.

#include "training.hpp"

#include "training/runs.hpp"

namespace llama_tests {

using training_tests::first_difference;
using training_tests::fresh_gpu;
using training_tests::require_no_findings;
using training_tests::require_no_leaks;
using training_tests::result;
using training_tests::text;
using training_tests::train;

/// Three layers, a few thousand weights.
llama::training_options small_options();

}  // namespace llama_tests
