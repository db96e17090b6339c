// On a GPU: cuBLAS with a workspace of ours.
#include "blas.hpp"
#include "device_array.hpp"
#include "element.hpp"

#include <cublas_v2.h>

#include <cstddef>
#include <string>
#include <type_traits>

namespace examples {
namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20U;  // what cuBLAS takes itself from Hopper on

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw ho::error(std::string(call) + ": " + cublasGetStatusName(status) + " (" + cublasGetStatusString(status) + ")");
}

template <class T>
constexpr cudaDataType type_of = std::is_same_v<T, double>  ? CUDA_R_64F
                                 : std::is_same_v<T, float> ? CUDA_R_32F
                                                            : CUDA_R_16BF;

}  // namespace

struct blas_context::state {
  state() : workspace(workspace_bytes) { check(cublasCreate(&handle), "cublasCreate"); }
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() { static_cast<void>(cublasDestroy(handle)); }

  device_array<std::byte> workspace;
  cublasHandle_t handle = nullptr;
};

blas_context::blas_context(cudaStream_t stream) : stream_(stream), state_(std::make_unique<state>()) {
  check(cublasSetStream(state_->handle, stream), "cublasSetStream");  // first: it takes the workspace away
  check(cublasSetWorkspace(state_->handle, state_->workspace.data(), workspace_bytes), "cublasSetWorkspace");
  check(cublasSetAtomicsMode(state_->handle, CUBLAS_ATOMICS_NOT_ALLOWED), "cublasSetAtomicsMode");
  // Sums of bf16 products stay in float where cuBLAS splits them, too.
  check(cublasSetMathMode(state_->handle, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                                                    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
        "cublasSetMathMode");
}
blas_context::~blas_context() = default;

// cuBLAS is column-major, so it is asked for the transpose: c^T = op(b)^T op(a)^T.
template <class A, class R>
void multiply(const blas_context& blas, const product<A, R>& p) {
  using C = compute_t<A>;
  if (p.add != nullptr && p.add != p.c) {
    ho::check(cudaMemcpyAsync(p.c, p.add, p.m * p.n * sizeof(R), cudaMemcpyDeviceToDevice, blas.stream()),
              "cudaMemcpyAsync");
  }
  const C one = 1;
  const C beta = p.add == nullptr ? C(0) : C(1);
  const auto m = static_cast<std::int64_t>(p.m);
  const auto n = static_cast<std::int64_t>(p.n);
  const auto k = static_cast<std::int64_t>(p.k);
  check(cublasGemmEx_64(blas.get().handle, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                        p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, p.b, type_of<A>,
                        p.transpose_b ? k : n, p.a, type_of<A>, p.transpose_a ? m : k, &beta, p.c, type_of<R>, n,
                        std::is_same_v<C, double> ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        p.name);
}

template void multiply(const blas_context&, const product<float, float>&);
template void multiply(const blas_context&, const product<double, double>&);
template void multiply(const blas_context&, const product<bf16, bf16>&);
template void multiply(const blas_context&, const product<bf16, float>&);

}  // namespace examples
