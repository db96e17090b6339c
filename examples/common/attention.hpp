#pragma once
// Causal attention with grouped queries, in the manner of FlashAttention (Dao, arXiv 2307.08691): scores are never
// stored. Forward leaves the context and each row's log-sum-exp; backward computes the scores again from them.

#include "element.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>

namespace examples {

/// Rows are tokens of whole sequences, one after the other. q is [rows, heads, head_size], context [rows, heads,
/// value_size], and so are their gradients; k [rows, kv_heads, head_size] and v [rows, kv_heads, value_size], each
/// shared by heads / kv_heads query heads; lse and delta [rows, heads].
struct attention_shape {
  std::size_t rows, sequence, heads, kv_heads, head_size, value_size;
};

/// Enqueues on `stream` and returns; every sum has one fixed order. Defined for float, double and bf16.
template <class T>
struct attention {
  using C = compute_t<T>;
  static constexpr std::size_t largest_head = 256;  // a thread keeps that many partial results

  static void forward(cudaStream_t stream, const attention_shape& shape, const T* q, const T* k, const T* v, T* context,
                      C* lse);

  /// Writes d_q, d_k and d_v. `delta` is workspace: a row's sum of d_context * context.
  static void backward(cudaStream_t stream, const attention_shape& shape, const T* q, const T* k, const T* v,
                       const T* context, const C* lse, const T* d_context, C* delta, T* d_q, T* d_k, T* d_v);
};

}  // namespace examples
