#pragma once
// The matrix products of a linear layer, in the order of one stream. This implementation calls a CBLAS on one thread
// (two threads give other bits than one); a GPU build replaces matmul.cpp.

#include "element.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>

namespace llama {

/// x is [rows, inputs], y [rows, outputs], w [outputs, inputs], all row-major. bf16 is converted on the way in, summed
/// in float and rounded once. Defined for float, double and bf16.
template <class T>
struct matmul {
  using C = compute_t<T>;

  struct shape {
    std::size_t rows, inputs, outputs;
  };

  /// y = x w^T, plus `residual` ([rows, outputs]) where it is not null.
  static void forward(cudaStream_t stream, const shape& s, const T* x, const T* w, T* y, const T* residual = nullptr);

  /// d_x = d_y w, or d_x += d_y w.
  static void backward_input(cudaStream_t stream, const shape& s, const T* d_y, const T* w, T* d_x, bool add = false);

  /// d_w += d_y^T x.
  static void backward_weight(cudaStream_t stream, const shape& s, const T* d_y, const T* x, C* d_w);
};

}  // namespace llama
