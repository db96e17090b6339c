#pragma once
// Which experts a token goes through, and in which order the pairs of token and expert are computed. A pair is counted
// row * top_k + choice. All enqueue on `stream` and return; pointers are device memory.

#include "sort_pairs.hpp"

#include "common/device_array.hpp"
#include "common/element.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace moe {

struct routing_shape {
  std::size_t rows, experts, top_k, groups, top_groups;
  double scale;          // of the weights
  std::size_t capacity;  // pairs that an expert takes at most; the later ones in the order of the tokens are dropped
  [[nodiscard]] std::size_t pairs() const { return rows * top_k; }
};

/// Scores, choice and gradient of the router, as in Hugging Face's DeepseekV3TopkRouter. Defined for float, double and
/// bf16.
template <class T>
struct router {
  using C = examples::compute_t<T>;

  /// From logits ([rows, experts], left as scores = sigmoid(logits)): experts[pair] are the top_k of scores + bias
  /// within the top_groups best groups, best first, the lower number where two are equal; probabilities[pair] their
  /// scores without the bias. A group is rated by the sum of its two best; experts of other groups count as 0.
  static void choose(cudaStream_t stream, const routing_shape& s, C* logits, const C* bias, C* probabilities,
                     std::int32_t* experts);

  /// d_logits[rows, experts] from the gradient of each pair's weight: scale * p / sum of the token's p.
  static void backward(cudaStream_t stream, const routing_shape& s, const C* probabilities, const std::int32_t* experts,
                       const C* d_weights, T* d_logits);

  /// bias += rate where an expert had less than its share of `loads`, -= rate where more (arXiv 2412.19437, 2.1.2).
  static void balance(cudaStream_t stream, std::size_t experts, const std::int32_t* loads, double rate, C* bias);
};

/// The order of the experts: the pairs of one expert lie side by side, in the order of their tokens. Workspace for one
/// layer at a time, in stream order.
class expert_order {
public:
  expert_order(const routing_shape& largest, cudaStream_t stream);

  /// slots[pair]: its place among all that are computed, -1 where it is dropped.
  void make(cudaStream_t stream, const routing_shape& s, const std::int32_t* experts, std::int32_t* slots);

  /// Of the last make: the pairs that each expert computes.
  [[nodiscard]] const std::int32_t* kept() const { return kept_.data(); }
  /// loads[e] += the pairs that chose it, dropped ones too.
  void add_loads(cudaStream_t stream, std::size_t experts, std::int32_t* loads) const;

private:
  examples::device_array<std::int32_t> begins_, firsts_, chosen_, kept_;  // per expert
  pair_sorter sorter_;
};

}  // namespace moe
