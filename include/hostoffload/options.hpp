#pragma once
// How a scheduler is set up.

#include <hostoffload/cuda/allocation.hpp>
#include <hostoffload/memory/pinned_slab.hpp>
#include <hostoffload/memory/slot.hpp>
#include <hostoffload/range_observer.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <limits>

namespace hostoffload::inline v0 {

/// No bound.
inline constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

inline namespace literals {
[[nodiscard]] consteval std::size_t operator""_KiB(unsigned long long n) { return static_cast<std::size_t>(n) << 10U; }
[[nodiscard]] consteval std::size_t operator""_MiB(unsigned long long n) { return static_cast<std::size_t>(n) << 20U; }
[[nodiscard]] consteval std::size_t operator""_GiB(unsigned long long n) { return static_cast<std::size_t>(n) << 30U; }
}  // namespace literals

using slot_observer = detail::slot_observer;

struct scheduler_options {
  /// The stream on which define functions and most uses run. It outlives the scheduler.
  cudaStream_t compute = nullptr;

  /// Bytes of device memory for offloaded tensors: in use, leaving, arriving, arrived or kept. Never exceeded.
  /// Allocated at once, unless unlimited.
  std::size_t window = unlimited;

  /// Bytes of pinned host memory at most. What the tensors need is allocated, in one piece, when a step begins.
  std::size_t host_capacity = unlimited;

  /// How that is pinned. `registered` takes it from the GPU's NUMA node, pins faster, and throws host_capacity_error
  /// before it takes what the system does not leave this process (pinned_slab.hpp); the default lets CUDA decide.
  pinning_options host_pinning{.how = pinning::allocated};

  /// Copies on streams of their own, and fetches ahead of their use. false: every copy on the compute stream when it is
  /// needed, a baseline to measure against.
  bool overlap = true;

  /// Copies of fewer bytes that are due together (of a group that was made, of what is fetched ahead, of a plan's
  /// point) are enqueued by one cudaMemcpyBatchAsync, up to 32; 0: each by a call of its own, as in captures, without
  /// overlap and before CUDA 13. A batch arrives as a whole. The default is not measured on a GPU yet: 16 KiB take a 55
  /// GB/s link 0.3 us, less than a call and its start cost.
  std::size_t batch_copies_below = 16384;

  /// Times are sampled in one step of so many, from the third on; 0: never.
  unsigned sample_every = 16;

  /// Plans steps: once a step has been timed (from the third on, by sample_every), the ones that follow copy when the
  /// plan says and lie at fixed places of the window; what the window then has to spare stays on the device. A step
  /// that departs from its plan goes on without; two in a row, or times that drift by a tenth, lead to a new plan. The
  /// window holds the plan and a reserve of the least window. Where copies cannot be hidden, the plan chooses which
  /// offload_or_remat tensors are computed again instead (recompute_choice.hpp): those with a define function that has
  /// all its inputs at that time, none of them an absent remat tensor, in a window that holds all this too, for a step
  /// that is shorter by a hundredth at least. Their pinned memory stays theirs. The choice stands until tensors come or
  /// go, the step or its times change for good, or it turns out no better than copying all; then it does not come back.
  bool plan = false;

  /// Memory that the caller owns and that outlives the scheduler; where none is given the scheduler allocates. Device
  /// memory begins at a multiple of 256 bytes, host memory is pinned, else usage_error.
  memory_region device_memory{};
  memory_region host_memory{};

  slot_observer observer{};

  /// Told what the host enqueues, step by step; nvtx.hpp has one for Nsight Systems.
  range_observer ranges{};
};

}  // namespace hostoffload::inline v0
