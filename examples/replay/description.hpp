#pragma once
// A model, how a run of it is laid out, and what is read of them from a file.

#include "tensors.hpp"

#include <hostoffload/launch.hpp>

#include <cstddef>
#include <optional>
#include <string>

namespace replay {

namespace ho = hostoffload;

/// Queries, keys and values from one product each; several query heads share a key/value head.
struct grouped_attention {
  std::size_t heads = 0, kv_heads = 0, head_size = 0;
  bool head_norms = false;  // RMSNorm over each head of q and k
};

/// DeepSeek's: q and k, v come from low-rank projections, and a part of each key head, with rotary positions, is shared
/// by all heads (arXiv 2405.04434).
struct latent_attention {
  std::size_t heads = 0, q_rank = 0, kv_rank = 0, nope_size = 0, rope_size = 0, value_size = 0;
};

/// Of the layers behind the first `dense_layers`.
struct experts {
  std::size_t count = 0, top_k = 0, shared = 0, width = 0, dense_layers = 0;
  bool bias = false;  // of the router, for balancing
};

struct model {
  std::string name;
  std::size_t layers = 0, hidden = 0, vocabulary = 0;
  bool tied = false;
  std::size_t ffn = 0;  // width of the dense feed-forward blocks; 0 where every layer has experts
  std::optional<grouped_attention> grouped;
  std::optional<latent_attention> latent;  // one of the two
  std::optional<experts> moe;

  [[nodiscard]] bool has_experts(std::size_t layer) const { return moe && layer >= moe->dense_layers; }
};

/// One device of `fsdp` x `expert_parallel`. Weights, moments and gradients are divided among all of them; experts go
/// to `expert_parallel` groups first.
struct layout {
  std::size_t fsdp = 1, expert_parallel = 1;
  std::size_t sequence = 0, micro_batch = 0;     // per device; one micro batch a step
  ho::precision products = ho::precision::bf16;  // of the layers' matrix products
  ho::precision gathered = ho::precision::bf16;  // in which weights travel to the devices that need them
  std::size_t weight_bytes = 4, moment_bytes = 4, gradient_bytes = 4;  // per parameter, of what a device keeps
  tensor_set offload;                                                  // what is put away first

  [[nodiscard]] std::size_t devices() const { return fsdp * expert_parallel; }
  [[nodiscard]] std::size_t tokens() const { return sequence * micro_batch; }
};

/// What a run needs beside the machine.
struct description {
  model what;
  layout how;
  double matrix_share = 1;   // of the machine's rate at `products` that the layers' products reach
  double fixed_seconds = 0;  // of a step, beside what is modelled
};

}  // namespace replay
