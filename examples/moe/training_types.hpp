#pragma once
// One translation unit per element type: each holds the model for the placements it is built for.

#include "training.hpp"

#include <memory>

namespace moe {

std::unique_ptr<examples::training> make_float_training(const training_options& options,
                                                        const examples::token_stream& data);
std::unique_ptr<examples::training> make_bf16_training(const training_options& options,
                                                       const examples::token_stream& data);
std::unique_ptr<examples::training> make_double_training(const training_options& options,
                                                         const examples::token_stream& data);

}  // namespace moe
