#pragma once
// Small training runs of any example's model on the virtual GPU, each checked for races, misuse of memory and leaks.

#include "common/tokens.hpp"
#include "common/training.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace training_tests {

struct result {
  std::vector<double> losses;
  std::vector<double> parameters;
  std::size_t least_window_bytes = 0;
  std::size_t bytes_in = 0;    // in the last step, from host to device
  std::size_t bytes_out = 0;   // in the last step, from device to host
  std::size_t replays = 0;     // launches of a captured step
  std::size_t recomputed = 0;  // in the last step, runs of a define function for values that were dropped
  std::size_t host_waits = 0;  // in the last step
};

/// The repository's LICENSE.
const examples::token_stream& text();

/// The virtual GPU anew: a GB200 scaled to this hidden size, with unlimited memory.
void fresh_gpu(std::size_t hidden);

/// Requires that nothing was found so far, and, with no run alive, that nothing leaked.
void require_no_findings();
void require_no_leaks();

/// Counts the first place where the bits differ; the size where they do not.
std::size_t first_difference(const std::vector<double>& a, const std::vector<double>& b);

/// Some steps of a run, then its results.
result train(examples::training& run, std::size_t steps);

/// max|a - b| / max|b| of the gradient of one parameter and central differences b of the loss, over up to 24 elements.
double worst_relative_error(examples::training& run, const examples::parameter& p, const std::vector<double>& values,
                            const std::vector<double>& gradients, std::size_t batch);

/// `order` as execution_order of the virtual GPU takes it.
void take_order(std::uint64_t order);

template <class Options>
void fresh_gpu(const Options& options) {
  fresh_gpu(options.model.hidden);
}

template <class Options>
result train(const Options& options, std::size_t steps, std::uint64_t order = 0) {
  fresh_gpu(options);
  take_order(order);
  result done;
  {
    const auto run = make_training(options, text());
    done = train(*run, steps);
  }
  require_no_findings();
  require_no_leaks();
  return done;
}

template <class Options>
std::size_t least_window(Options o) {
  o.window = hostoffload::unlimited;
  return train(o, 3).least_window_bytes;
}

}  // namespace training_tests
