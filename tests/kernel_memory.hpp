#pragma once
// Host memory that a test's kernels write: pinned on a GPU, any memory on the virtual one. It may be given up while a
// kernel that writes it is under way: CUDA frees pinned memory when the device is done with it, and the virtual GPU's
// kernel is one of its owners.

#include <hostoffload/cuda/allocation.hpp>
#include <hostoffload/launch.hpp>

#include <cstddef>
#include <memory>

using kernel_memory = std::shared_ptr<float[]>;

/// Not initialised.
inline kernel_memory memory_for_kernels(std::size_t n) {
#if defined(__CUDACC__)
  const auto owner = std::make_shared<hostoffload::pinned_allocation>(n * sizeof(float));
  return {owner, static_cast<float*>(owner->region().begin)};
#else
  return kernel_memory(new float[n]);
#endif
}

/// to[i] = in[i] for n values, when `stream` comes to it.
inline void copy_out(cudaStream_t stream, const float* in, const kernel_memory& memory, std::size_t n,
                     double flops = 0) {
#if defined(__CUDACC__)
  float* const to = memory.get();
#else
  const kernel_memory& to = memory;  // of which the kernel has a copy
#endif
  hostoffload::launch(stream, n, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { (&to[0])[i] = in[i]; },
                      {.name = "look", .reads = {{in, n * sizeof *in}}, .flops = flops});
}
