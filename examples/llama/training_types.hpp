#pragma once
// One translation unit per element type: each holds the model for the placements it is built for.

#include "training.hpp"

#include <memory>

namespace llama {

std::unique_ptr<training> make_float_training(const training_options& options, const token_stream& data);
std::unique_ptr<training> make_bf16_training(const training_options& options, const token_stream& data);
std::unique_ptr<training> make_double_training(const training_options& options, const token_stream& data);

}  // namespace llama
