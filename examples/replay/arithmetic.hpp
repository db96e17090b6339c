#pragma once
// What follows from a description without stepping anything: parameters, FLOPs, bytes and volumes. Exact, in doubles
// that hold integers where they count things.

#include "description.hpp"

#include <cstddef>

namespace replay {

struct parameter_counts {
  double vocabulary = 0;  // embedding and, where it is not tied, the head
  double attention = 0;   // of one layer, with its two norms and those inside
  double dense = 0;       // feed-forward block of a dense layer
  double expert = 0;      // one expert
  double router = 0;      // of a layer with experts
  double shared = 0;      // shared experts of such a layer
  double total = 0;
  double active = 0;  // that one token passes
};
[[nodiscard]] parameter_counts count_parameters(const model& m);

/// Parameters of one layer that each device of an expert-parallel group needs for its work: its own experts, and all
/// that is not expert.
[[nodiscard]] double layer_parameters(const model& m, std::size_t layer, std::size_t expert_parallel);

/// Floating point operations of a step over `tokens` tokens by MaxText's rule: three times the forward pass, causal
/// attention halved, the router counted, the embedding lookup and any recomputation not.
struct counted_flops {
  double total = 0;
  double attention = 0;  // of it
};
[[nodiscard]] counted_flops step_flops(const model& m, std::size_t tokens, std::size_t sequence);

/// Of one layer's tensor over `tokens` tokens; bf16, but log-sum-exp (fp32), and router (fp32 weight and int32 index
/// per expert chosen). Routing is balanced: a device gets as many rows as it sends. 0: the layer has none.
[[nodiscard]] std::size_t tensor_bytes(const model& m, std::size_t layer, tensor t, std::size_t tokens);

/// Of all tensors in `set`.
[[nodiscard]] std::size_t layer_bytes(const model& m, std::size_t layer, const tensor_set& set, std::size_t tokens);
[[nodiscard]] std::size_t model_bytes(const model& m, const tensor_set& set, std::size_t tokens);

/// Bytes of one element, with the scales of block formats: FP8 has one byte per 32 elements (OCP MX specification),
/// FP4 one per 16 (NVFP4).
[[nodiscard]] double element_bytes(ho::precision p);

/// Bytes that a device receives in a step, and sends as many.
struct volumes {
  double all_to_all = 0;  // of one pass over all layers: tokens to their experts, or back
  double gather = 0;      // of one gather of all weights
  double scatter = 0;     // of the gradients, bf16
};
[[nodiscard]] volumes step_volumes(const model& m, const layout& how);

}  // namespace replay
