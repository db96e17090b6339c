#pragma once
// Memory that the caller gives to a scheduler: told at once when it is not what the scheduler needs.

#include <hostoffload/cuda/allocation.hpp>
#include <hostoffload/errors.hpp>
#include <hostoffload/memory/slot.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace hostoffload::inline v0::detail {

[[nodiscard]] inline cudaMemoryType kind_of_memory(const void* at) {
  cudaPointerAttributes found{};
  check(cudaPointerGetAttributes(&found, at), "cudaPointerGetAttributes");
  return found.type;
}

/// Throws usage_error unless `region` is empty, or device memory that begins where a slot may.
inline void check_device_memory(const memory_region& region) {
  if (region.begin == nullptr) return;
  if (reinterpret_cast<std::uintptr_t>(region.begin) % slot_alignment != 0) {
    throw usage_error("the device_memory given has to begin at a multiple of " + std::to_string(slot_alignment) +
                      " bytes, as cudaMalloc's does");
  }
  const cudaMemoryType kind = kind_of_memory(region.begin);
  if (kind != cudaMemoryTypeDevice && kind != cudaMemoryTypeManaged)
    throw usage_error("the device_memory given is host memory: take it from cudaMalloc");
}

/// Throws usage_error unless `region` is empty, or pinned: copies of pageable memory are slow, and the host waits.
inline void check_host_memory(const memory_region& region) {
  if (region.begin == nullptr || kind_of_memory(region.begin) == cudaMemoryTypeHost) return;
  throw usage_error("the host_memory given is not pinned: take it from cudaHostAlloc, or register it");
}

}  // namespace hostoffload::inline v0::detail
