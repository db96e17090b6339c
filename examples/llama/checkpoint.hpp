#pragma once
// Weights as Hugging Face's transformers stores those of a Llama: a safetensors file with its names, [outputs, inputs]
// row-major, rotary pairs (i, i + head size / 2), and no lm_head.weight where the head uses the embedding.

#include "parameters.hpp"
#include "sizes.hpp"

#include <string>
#include <vector>

namespace llama {

/// "layers.0.q" is "model.layers.0.self_attn.q_proj.weight".
std::string hugging_face_name(const parameter& p);

/// The weights of `path`, of type F32 or BF16, laid out as list_parameters. What the file says of its model, in its
/// metadata or in a config.json beside it, and each tensor's shape have to agree with `model`. Throws
/// std::runtime_error with one line: file, tensor or entry, remedy.
std::vector<double> load_checkpoint(const std::string& path, const sizes& model);

/// The bytes of a file with these weights, laid out as list_parameters, rounded to BF16 or F32. The metadata hold the
/// entries of transformers' LlamaConfig as JSON, under "config".
std::string checkpoint(const sizes& model, const std::vector<double>& values, bool as_bf16);

}  // namespace llama
