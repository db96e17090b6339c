#pragma once
// Rows of tokens to the order of the experts and back. `slots` is as expert_order::make left it; arrays in the order of
// the experts have `kept` rows, the pairs that are computed. All enqueue on `stream` and return; every sum has one
// fixed order.

#include "router.hpp"

#include "common/element.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace moe {

/// Defined for float, double and bf16.
template <class T>
struct permute {
  using C = examples::compute_t<T>;

  /// out[slot] = x[row of the pair]: [kept, width] from [rows, width].
  static void gather(cudaStream_t stream, const routing_shape& s, std::size_t kept, std::size_t width, const T* x,
                     const std::int32_t* slots, T* out);

  /// out[row] += the sum of y[slot] over the row's pairs, the gradient of gather.
  static void gather_backward(cudaStream_t stream, const routing_shape& s, std::size_t kept, std::size_t width,
                              const T* y, const std::int32_t* slots, T* out);

  /// out[row] += the sum of weight * y[slot] over the row's pairs, weight = scale * p / sum of the row's p.
  static void combine(cudaStream_t stream, const routing_shape& s, std::size_t kept, std::size_t width, const T* y,
                      const C* probabilities, const std::int32_t* slots, T* out);

  /// Of combine, with y = act w^T: from d_y = the rows' gradients in the order of the experts ([kept, width]) and
  /// d_act = d_y w ([kept, inner]) to d_weights[pair] = d_act . act, 0 for a dropped pair; then d_y and d_act are
  /// multiplied by the pair's weight.
  static void weigh_backward(cudaStream_t stream, const routing_shape& s, std::size_t kept, std::size_t width,
                             std::size_t inner, const C* probabilities, const std::int32_t* slots, const T* act, T* d_y,
                             T* d_act, C* d_weights);
};

}  // namespace moe
