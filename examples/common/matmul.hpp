#pragma once
// The matrix products of a linear layer, in the order of one stream: cuBLAS on a GPU, a CBLAS on the virtual GPU.

#include "blas.hpp"
#include "element.hpp"

#include <cstddef>

namespace examples {

/// x is [rows, inputs], y [rows, outputs], w [outputs, inputs], all row-major. bf16 is summed in float and rounded
/// once. Defined for float, double and bf16. All enqueue on the context's stream and return; same input, same bits.
template <class T>
struct matmul {
  using C = compute_t<T>;

  struct shape {
    std::size_t rows, inputs, outputs;
  };

  /// y = x w^T, plus `residual` ([rows, outputs]) where it is not null.
  static void forward(const blas_context& blas, const shape& s, const T* x, const T* w, T* y,
                      const T* residual = nullptr);

  /// y = x w^T, not rounded to T.
  static void forward_unrounded(const blas_context& blas, const shape& s, const T* x, const T* w, C* y);

  /// d_x = d_y w, or d_x += d_y w.
  static void backward_input(const blas_context& blas, const shape& s, const T* d_y, const T* w, T* d_x,
                             bool add = false);

  /// d_w += d_y^T x.
  static void backward_weight(const blas_context& blas, const shape& s, const T* d_y, const T* x, C* d_w);
};

}  // namespace examples
