#pragma once
// Training runs of the mixture of experts.

#include "placements.hpp"
#include "sizes.hpp"

#include "common/tokens.hpp"
#include "common/training.hpp"

#include <cstddef>
#include <memory>

namespace moe {

struct training_options : examples::run_options {
  sizes model;
  plan placement = plan::offload;
  double balance_rate = 1e-3;  // of the router's bias per step (arXiv 2412.19437, 4.2)
  [[nodiscard]] bool overlap() const { return placement != plan::offload_naive; }
};

/// Bytes of the tensors that the plan offloads, of the layer that has most of them, for one micro batch.
std::size_t offloaded_bytes_per_layer(const training_options& options);

/// `data` must outlive the run. Throws std::invalid_argument for options that do not fit together, ho::out_of_memory
/// where the trained arrays or the workspace do not fit on the device. double is built for save and mixed only.
std::unique_ptr<examples::training> make_training(const training_options& options, const examples::token_stream& data);

}  // namespace moe
