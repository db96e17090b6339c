#pragma once
// Weights as Hugging Face's transformers stores those of a DeepSeek-V3: rotary pairs are neighbours, and the router's
// bias is e_score_correction_bias, in F32.

#include "parameters.hpp"
#include "sizes.hpp"

#include "common/checkpoint.hpp"

#include <string>

namespace moe {

/// "layers.3.experts.0.up" is "model.layers.3.mlp.experts.0.up_proj.weight".
std::string hugging_face_name(const examples::parameter& p);

examples::checkpoint_format format_of(const sizes& model);

}  // namespace moe
