// A sticky error, in a program of its own: it is the end of the process for CUDA.

#include "support.hpp"

#if !defined(__CUDACC__)
#include <hostoffload/virtual_gpu/faults.hpp>
#endif

using namespace semantics;

namespace {

/// A kernel that touches what is no memory. The virtual GPU runs no such kernel: there the next call learns of it.
void touch_nothing(cudaStream_t s) {
#if defined(__CUDACC__)
  hostoffload::launch(s, 1, assign{reinterpret_cast<int*>(64), nullptr, 1, 0}, {.name = "wild"});
#else
  static_cast<void>(s);
  hostoffload::virtual_gpu::fail_call(1, cudaErrorIllegalAddress);
#endif
}

}  // namespace

// cudaErrorIllegalAddress: "The device encountered a load or store instruction on an invalid memory address. This
// leaves the process in an inconsistent state and any further CUDA work will return the same error. To continue using
// CUDA, the process must be terminated and relaunched."
TEST_CASE("after an illegal address every call fails with it") {
  const device_ints x(1);
  const stream s;
  const event e;
  touch_nothing(s);
  CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 256) == cudaErrorIllegalAddress);
  CHECK(cudaEventRecord(e, s) == cudaErrorIllegalAddress);
  int value = 0;
  CHECK(cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost) == cudaErrorIllegalAddress);
  CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK(cudaFree(x) == cudaErrorIllegalAddress);
}
