#pragma once
// Small training runs of the mixture of experts.

#include "training.hpp"

#include "training/runs.hpp"

namespace moe_tests {

/// A dense layer and two of experts, a few thousand weights.
moe::training_options small_options();

}  // namespace moe_tests
