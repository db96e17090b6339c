#pragma once
// Small training runs on the virtual GPU, each checked for races, misuse of memory and leaks.

#include "training.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llama_tests {

struct result {
  std::vector<double> losses;
  std::vector<double> parameters;
  std::size_t least_window_bytes = 0;
  std::size_t bytes_in = 0;    // in the last step, from host to device
  std::size_t replays = 0;     // launches of a captured step
  std::size_t recomputed = 0;  // in the last step, runs of a define function for values that were dropped
};

/// Three layers, a few thousand weights.
llama::training_options small_options();

/// The repository's LICENSE.
const llama::token_stream& text();

/// The virtual GPU anew: a GB200 scaled to the model, with unlimited memory.
void fresh_gpu(const llama::training_options& options);

/// Requires that nothing was found so far, and, with no run alive, that nothing leaked.
void require_no_findings();
void require_no_leaks();

/// `order` as execution_order of the virtual GPU takes it.
result train(const llama::training_options& options, std::size_t steps, std::uint64_t order = 0);

/// Counts the first place where the bits differ; the size where they do not.
std::size_t first_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace llama_tests
