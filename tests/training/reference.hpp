#pragma once
// Loss, logits and every gradient against those of PyTorch and transformers, from the files that an example's
// reference/make_reference.py made.

#include "runs.hpp"

#include "common/checkpoint.hpp"
#include "common/safetensors.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace training_tests {

inline constexpr std::uint64_t reference_seed = 7;
inline constexpr std::size_t reference_batch = 3;

/// Of tests/data.
std::string reference_file(const std::string& name);

/// Training text of NAME.expected.safetensors, whose batch has to be that of the file.
examples::token_stream reference_text(const std::string& name, std::size_t sequences, std::size_t sequence);

/// Of a run that starts from the file's weights: max|a - b| / max|b| under 1e-5 for loss, logits and each gradient.
void compare_with_reference(examples::training& run, const std::string& name,
                            const examples::checkpoint_format& format);

/// NAME.safetensors, read and written again, has the same tensors.
void compare_checkpoints(const std::string& name, const examples::checkpoint_format& format);

template <class Options>
void compare_with_reference(Options o, const std::string& name, const examples::checkpoint_format& format) {
  const examples::token_stream tokens = reference_text(name, o.batch, o.model.sequence);
  o.type = examples::element::f32;
  o.seed = reference_seed;
  o.start = std::make_shared<const std::vector<double>>(
      examples::load_checkpoint(reference_file(name + ".safetensors"), format));
  fresh_gpu(o);
  {
    const auto run = make_training(o, tokens);
    compare_with_reference(*run, name, format);
  }
  require_no_findings();
  require_no_leaks();
}

}  // namespace training_tests
