#pragma once
// Machines as data: what the virtual GPU needs to know of a GPU, its links and its host, each number with its source.

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <hostoffload/virtual_gpu/kernel.h>

namespace hostoffload::inline v0::virtual_gpu {

/// A number and where it comes from. Letters in a source: (m) measured, (s) specification, (u) unverified.
struct sourced {
  double value = 0;
  const char* source = "";
};

inline constexpr double unbounded = std::numeric_limits<double>::infinity();

/// Copies between one GPU and its host's memory. Bytes per second.
struct link_rates {
  sourced to_device, to_host;  ///< one direction at a time
  sourced both;                ///< each direction, while both carry data

  /// Sums over all GPUs of one host memory, in force while more than one of them copies: in one direction, and with
  /// both.
  sourced all_to_device, all_to_host, all_both;

  /// A copy takes latency + bytes / rate; the latency is shorter for a copy that waited for its engine, and shorter
  /// still when it came in the same batch as the one before it. Seconds.
  sourced first_latency, queued_latency, batched_latency;
};

/// Virtual seconds that calls cost the calling thread.
struct host_costs {
  double copy = 0;         ///< cudaMemcpyAsync, cudaMemsetAsync and the synchronous forms
  double batch_entry = 0;  ///< each further copy of cudaMemcpyBatchAsync
  double launch = 0;       ///< hostoffload_launch, cudaLaunchHostFunc
  double record = 0;       ///< cudaEventRecord
  double wait = 0;         ///< cudaStreamWaitEvent
  double query = 0;        ///< cudaEventQuery, cudaStreamQuery
  double synchronise = 0;  ///< of the synchronising calls, beside the wait itself
  double allocate = 0;     ///< cudaMalloc, cudaFree, and the fixed part of pinning host memory
  double pool = 0;         ///< cudaMallocAsync, cudaFreeAsync
  double create = 0;       ///< of a stream or event, and its destruction
  double graph = 0;        ///< cudaGraphLaunch
  double graph_node = 0;   ///< each node of a launch
  double other = 0;        ///< device queries and the like
  sourced pin_fresh;       ///< cudaHostAlloc, bytes per second
  sourced pin_touched;     ///< cudaHostRegister of touched memory, bytes per second
  sourced pageable;        ///< host side of copies that use pageable memory, bytes per second
};

/// How far a machine was scaled; 1 is full size.
struct scale_factors {
  double compute = 1;  ///< of the arithmetic rates
  double bytes = 1;    ///< of capacities, latencies and host costs: one second here stands for 1 / bytes seconds
};

struct machine {
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  double l2_bytes = 0;

  sourced device_memory;     ///< bytes of one GPU
  sourced host_memory;       ///< bytes that can be pinned on one host
  int devices_per_host = 1;  ///< GPUs that share one host memory
  int host_numa_node = -1;   ///< cudaDevAttrHostNumaId: the nearest node of the computer that this runs on; -1: none

  std::array<sourced, 6> compute;  ///< FLOP/s by hostoffload_precision; 0: no units for it
  sourced hbm;                     ///< bytes per second
  sourced peer;                    ///< GPU to GPU, bytes per second and direction
  link_rates link;
  sourced kernel_latency;  ///< seconds from a kernel's start to its first work
  sourced wait_latency;    ///< seconds from an event to the start of a stream that waits for it
  sourced host_function;   ///< seconds for which a host function holds up its stream
  host_costs host;
  scale_factors scale;

  /// The arithmetic rate that kernels of a precision are bound by, with its source.
  [[nodiscard]] const sourced& rate(hostoffload_precision precision) const {
    return compute.at(static_cast<std::size_t>(precision));
  }
};

[[nodiscard]] machine gb200();  ///< Grace with two Blackwell GPUs
[[nodiscard]] machine gb300();  ///< Grace with two Blackwell Ultra GPUs
[[nodiscard]] machine gh200();  ///< Grace with one Hopper GPU of 96 GB
[[nodiscard]] machine h200();   ///< SXM, x86 host over PCIe 5
[[nodiscard]] machine h100();   ///< SXM, x86 host over PCIe 5
[[nodiscard]] machine b200();   ///< SXM, x86 host over PCIe 5
[[nodiscard]] machine a100();   ///< SXM of 80 GB, x86 host over PCIe 4

/// The names of the functions above, as users type them.
[[nodiscard]] std::vector<std::string> machine_names();
/// Throws std::invalid_argument, with all names, for a name that is none of them.
[[nodiscard]] machine machine_named(std::string_view name);

/// A small model and the one that it stands for: hidden sizes, and bytes of the element types in which they compute.
struct model_scale {
  double hidden = 0, full_hidden = 0;
  double element_bytes = 2, full_element_bytes = 2;
};

/// The machine on which the small model's times and bytes have the ratios of the full-size model's on `full`.
/// A layer's FLOPs per saved byte grow with hidden / element_bytes: arithmetic rates are scaled by the ratio of those.
/// Its bytes grow with hidden² · element_bytes, the sequence being scaled like the hidden size: capacities, latencies
/// and host costs are scaled by the ratio of those. Link and HBM rates stay, so times scale like bytes. Throws
/// std::invalid_argument unless all four sizes are positive.
[[nodiscard]] machine scaled_to(const machine& full, const model_scale& scale);

/// The same machine with host copies that take no time: what a step would cost were its copies free.
[[nodiscard]] machine infinitely_fast_link(machine m);

}  // namespace hostoffload::inline v0::virtual_gpu
