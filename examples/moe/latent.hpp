#pragma once
// Multi-head latent attention (arXiv 2405.04434, 2.1): queries, keys and values from their low-rank forms, and the
// rotary positions that only a part of each head has. All enqueue on `stream` and return.

#include "common/element.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>

namespace moe {

/// q is [rows, heads, nope + rope], k the same, v [rows, heads, value], kv_b [rows, heads, nope + value], kv_a
/// [rows, kv_rank + rope]; its rotary part is shared by all heads.
struct latent_shape {
  std::size_t rows, sequence, heads, kv_rank, nope, rope, value;
  [[nodiscard]] HOSTOFFLOAD_DEVICE std::size_t key() const { return nope + rope; }
  [[nodiscard]] HOSTOFFLOAD_DEVICE std::size_t kv_a_width() const { return kv_rank + rope; }
};

/// `cosines` and `sines` are [sequence, rope / 2]. Rotated are neighbours, (x[2 i], x[2 i + 1]): what Hugging Face's
/// rope_interleave does, but for the order within a head, which cancels in the scores. Defined for float, double and
/// bf16.
template <class T>
struct latent {
  using C = examples::compute_t<T>;

  /// Rotates the rotary part of each query in place. `direction` -1 rotates back, which is also the gradient.
  static void rotate_queries(cudaStream_t stream, const latent_shape& s, const C* cosines, const C* sines, T* q,
                             int direction);

  /// k = (kv_b's first part, kv_a's rotary part rotated), v = kv_b's second part.
  static void split(cudaStream_t stream, const latent_shape& s, const C* cosines, const C* sines, const T* kv_a,
                    const T* kv_b, T* k, T* v);

  /// Writes d_kv_b, and d_kv_a: its rotary part, and 0 elsewhere.
  static void split_backward(cudaStream_t stream, const latent_shape& s, const C* cosines, const C* sines, const T* d_k,
                             const T* d_v, T* d_kv_a, T* d_kv_b);
};

}  // namespace moe
