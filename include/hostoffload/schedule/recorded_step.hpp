#pragma once
// One step as it was seen: what the compute stream did between the points at which leases begin and end, which tensors
// lived, and how fast the link is. Plans are made from it; it is plain data and knows nothing of CUDA.

#include <hostoffload/placement.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hostoffload::inline v0 {

/// One direction of the link to host memory: a copy takes latency_s + bytes / rate seconds.
struct link_direction {
  double rate = 0;             ///< bytes per second while the other direction is idle
  double rate_while_both = 0;  ///< while both directions carry data
  double latency_s = 0;

  friend bool operator==(const link_direction&, const link_direction&) = default;
};

/// A lease, or several that overlap: from the point at which the first begins to that at which the last ends.
struct recorded_use {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  friend bool operator==(const recorded_use&, const recorded_use&) = default;
};

/// A tensor from its making to its last use. A tensor that lives twice in a step, as with micro batches, has two.
struct recorded_life {
  std::string name{};
  std::size_t layer = 0;
  std::size_t bytes = 0;
  choice placed = choice::offload;   ///< only offloaded tensors are planned for; others are told for planners
  std::vector<recorded_use> uses{};  ///< in order, each behind the one before; the first one makes the values

  friend bool operator==(const recorded_life&, const recorded_life&) = default;
};

/// Points are numbered from 0; segment i of the compute stream lies between points i and i + 1. Its time is that of the
/// work alone, without waits for copies.
struct recorded_step {
  std::vector<double> segment_s{};
  std::vector<recorded_life> lives{};
  link_direction out{};  ///< device to host
  link_direction in{};   ///< host to device

  friend bool operator==(const recorded_step&, const recorded_step&) = default;
};

}  // namespace hostoffload::inline v0
