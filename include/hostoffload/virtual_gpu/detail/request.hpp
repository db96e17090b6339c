#pragma once
// What a program asks a stream to do, apart from kernels: enqueued at once, or kept in a graph.

#include <cstddef>

#include <cuda_runtime_api.h>

namespace hostoffload::inline v0::virtual_gpu::detail {

/// `rows` rows of `width` bytes, whose beginnings lie `to_pitch` and `from_pitch` bytes apart.
struct copy_request {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t width = 0, rows = 1;
  std::size_t to_pitch = 0, from_pitch = 0;
  cudaMemcpyKind kind = cudaMemcpyDefault;
  bool synchronous = false;  // of the functions without Async
  bool at_once = false;      // what lies in host memory is read before the call returns
  bool batched = false;      // not the first copy of a batch
};

struct set_request {
  void* to = nullptr;
  int value = 0;
  std::size_t width = 0, rows = 1, pitch = 0;
  bool synchronous = false;
};

struct host_call {
  cudaHostFn_t function = nullptr;
  void* data = nullptr;
};

}  // namespace hostoffload::inline v0::virtual_gpu::detail
