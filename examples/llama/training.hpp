#pragma once
// Training runs of a Llama.

#include "parameters.hpp"
#include "placements.hpp"
#include "sizes.hpp"

#include "common/tokens.hpp"
#include "common/training.hpp"

#include <cstddef>
#include <memory>

namespace llama {

struct training_options : examples::run_options {
  sizes model;
  plan placement = plan::offload;
  [[nodiscard]] bool overlap() const { return placement != plan::offload_naive; }
};

/// Bytes of one layer's tensors that the plan offloads, for one micro batch.
std::size_t offloaded_bytes_per_layer(const training_options& options);

/// `data` must outlive the run. Throws std::invalid_argument for options that do not fit together, ho::out_of_memory
/// where the trained arrays or the workspace do not fit on the device. double is built for save and mixed only.
std::unique_ptr<training> make_training(const training_options& options, const token_stream& data);

}  // namespace llama
