#pragma once
// Weights as Hugging Face's transformers stores those of a Llama: rotary pairs are (i, i + head size / 2), and there is
// no lm_head.weight where the head uses the embedding.

#include "common.hpp"
#include "parameters.hpp"
#include "sizes.hpp"

#include "common/checkpoint.hpp"

#include <string>
#include <vector>

namespace llama {

/// "layers.0.q" is "model.layers.0.self_attn.q_proj.weight".
std::string hugging_face_name(const parameter& p);

examples::checkpoint_format format_of(const sizes& model);

/// As those of examples. Throws std::invalid_argument where the sizes do not fit together.
std::vector<double> load_checkpoint(const std::string& path, const sizes& model);
std::string checkpoint(const sizes& model, const std::vector<double>& values, bool as_bf16);

}  // namespace llama
