#pragma once
// One training step as every schedule sees it: what the compute stream does, which tensors are put away between forward
// and backward, and how fast the link to host memory is. Plain data: no CUDA, no scheduler.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace schedules {

enum class pass : std::uint8_t { forward, backward, idle };

/// A piece of the compute stream's work that nothing interrupts. `idle`: the stream waits for other GPUs.
struct segment {
  double seconds = 0;
  pass of = pass::forward;
  std::size_t layer = 0;
  std::size_t micro_batch = 0;
};

/// Written by segment `made_in`, read by the segments `used_in` (later ones, ascending). Its bytes are on the device
/// while one of these runs. In the longest time between two of them it may be put away: copied out and in once.
struct tensor {
  std::string name{};
  std::size_t layer = 0;
  std::size_t micro_batch = 0;
  std::size_t bytes = 0;  ///< a multiple of 256
  std::size_t made_in = 0;
  std::vector<std::size_t> used_in{};
};

/// Bytes per second. The directions carry at most 2 · both together.
struct link_rates {
  double out = 0;   ///< device to host
  double in = 0;    ///< host to device
  double both = 0;  ///< each, while both directions carry data
};

struct workload {
  std::string name{};
  std::string machine{};   ///< of virtual_gpu::machine_names()
  std::string source{};    ///< of sizes, times and rates
  std::size_t layers = 0;  ///< that have tensors
  std::size_t micro_batches = 1;
  link_rates link{};
  std::vector<segment> segments{};
  std::vector<tensor> tensors{};
};

/// Throws std::invalid_argument, with the workload and the tensor named, where the above does not hold.
void check(const workload& w);

/// n + 1 times: when segment i starts if the compute stream never waits; the last is the end of the step. Seconds.
[[nodiscard]] std::vector<double> segment_starts(const workload& w);

/// A time in which no segment accesses a tensor: from the end of segment `after` to the start of `before`.
struct gap {
  std::size_t after = 0;
  std::size_t before = 0;
};
[[nodiscard]] gap longest_gap(const tensor& t, const std::vector<double>& starts);
/// All of them, in order: as many as the tensor has uses.
[[nodiscard]] std::vector<gap> gaps_of(const tensor& t);
[[nodiscard]] std::vector<gap> longest_gaps(const workload& w);
/// The one in which the backward pass begins.
[[nodiscard]] gap gap_between_passes(const workload& w, const tensor& t);

/// Tensors by segment: those that it writes, and those that it reads.
struct accesses {
  explicit accesses(const workload& w);
  std::vector<std::vector<std::size_t>> made, used;
};

[[nodiscard]] double total_bytes(const workload& w);

/// The largest set of bytes that one segment accesses: no window is smaller.
[[nodiscard]] std::size_t largest_access(const workload& w);

[[nodiscard]] std::string_view to_string(pass p) noexcept;

// --- The named workloads (named_workloads.cpp) and random ones (random_workload.cpp)

[[nodiscard]] std::vector<workload> named_workloads();

/// 4 to 80 layers of 1 to 8 tensors each; sizes log-uniform from 64 KiB to 2 GiB; each used once or twice in the
/// backward pass; made and used at random places of their layer; all bytes out take 0.1 to 1.5 of compute, and in is 1
/// to 3 times as fast; 1 to 8 micro batches, one after the other. The same for a seed on every platform.
[[nodiscard]] workload random_workload(std::uint64_t seed);

}  // namespace schedules
