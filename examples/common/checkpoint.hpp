#pragma once
// Weights as Hugging Face's transformers stores them: a safetensors file with its names, [outputs, inputs] row-major.

#include "parameters.hpp"

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace examples {

/// How one model's weights are called there, and what a file has to say of it.
struct checkpoint_format {
  struct stored_parameter {
    parameter here;
    std::string name;     // Hugging Face's
    std::string options;  // of the command line, that set its shape: "--ffn and --hidden"
  };
  struct config_entry {
    std::string name;
    nlohmann::json value;
    std::string option{};  // that sets it; empty where this program computes with no other value
  };

  std::string model;                         // "a Llama"
  std::vector<stored_parameter> parameters;  // laid out by their offsets
  std::vector<config_entry> config;          // of transformers' configuration, what decides what the weights mean
  bool may_be_tied = false;                  // there is an option --tied, for a head that uses the embedding's weights
};

/// Values of `path`, of type F32 or BF16, laid out as the parameters. What the file says of its model, in its metadata
/// or in a config.json beside it, and each tensor's shape have to agree with `format`. Throws std::runtime_error with
/// one line: file, tensor or entry, remedy.
std::vector<double> load_checkpoint(const std::string& path, const checkpoint_format& format);

/// The bytes of a file with these values, rounded to BF16 or F32; biases are F32. The metadata hold the entries of the
/// configuration as JSON, under "config".
std::string checkpoint(const checkpoint_format& format, const std::vector<double>& values, bool as_bf16);

}  // namespace examples
