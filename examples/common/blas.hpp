#pragma once
// One matrix product on either device: blas_cuda.cpp calls cuBLAS, blas_virtual.cpp a CBLAS. matmul.hpp has the linear
// layer's products.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

namespace examples {

/// A stream, and what products on it need: on a GPU a cuBLAS handle and its workspace. One stream, one workspace and no
/// atomics make results repeat ("Results reproducibility" in cuBLAS's documentation). For one thread at a time; must
/// outlive what was enqueued through it.
class blas_context {
public:
  struct state;

  /// Throws ho::out_of_memory where the workspace does not fit on the device.
  explicit blas_context(cudaStream_t stream);
  blas_context(const blas_context&) = delete;
  blas_context& operator=(const blas_context&) = delete;
  ~blas_context();

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] state& get() const { return *state_; }

private:
  cudaStream_t stream_;
  std::unique_ptr<state> state_;
};

/// c = op(a) op(b), plus `add` where it is not null; `add` may be c. Row-major: op(a) is [m, k], op(b) [k, n], add and
/// c [m, n]; what is transposed lies in memory as [k, m] or [n, k].
template <class A, class R>
struct product {
  const char* name;
  bool transpose_a, transpose_b;
  std::size_t m, n, k;
  const A* a;
  const A* b;
  const R* add;
  R* c;
};

/// Enqueues. Defined for A and R both float, both double, both bf16, and bf16 with R float. Sums are in compute_t<A>.
template <class A, class R>
void multiply(const blas_context& blas, const product<A, R>& p);

}  // namespace examples
