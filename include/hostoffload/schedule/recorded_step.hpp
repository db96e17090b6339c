#pragma once
// One step as it was seen: what the compute stream did between the points at which leases begin and end, which tensors
// lived, and how fast the link is. Plans are made from it; it is plain data and knows nothing of CUDA.

#include <hostoffload/placement.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hostoffload::inline v0 {

/// One direction of the link to host memory: a copy takes latency_s + bytes / rate seconds, and idle_s more where
/// nothing ran in its direction right before it.
struct link_direction {
  double rate = 0;             ///< bytes per second while the other direction is idle
  double rate_while_both = 0;  ///< while both directions carry data
  double latency_s = 0;
  double idle_s = 0;

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
  std::uint32_t tensor = 0;          ///< lives of the same tensor have the same number
  bool ended = false;                ///< by its last use, which gives the memory back; otherwise by the step's end

  friend bool operator==(const recorded_life&, const recorded_life&) = default;
};

/// A tensor that a define function awaited, by its life, and the point from which it had it.
struct recorded_input {
  std::uint32_t life = 0;
  std::uint32_t at = 0;

  friend bool operator==(const recorded_input&, const recorded_input&) = default;
};

/// A run of a define function. What it awaits may have to be made first: then one making lies within another. A life
/// that no making made first was produced: it cannot be made again.
struct recorded_making {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  bool again = false;                  ///< of values that were dropped: with another placement it may not happen
  std::vector<std::uint32_t> makes{};  ///< the lives that it wrote
  std::vector<recorded_input>
      inputs{};  ///< in order; where the trainer held a lease too, none of its uses begins there

  friend bool operator==(const recorded_making&, const recorded_making&) = default;
};

/// Points are numbered from 0; segment i of the compute stream lies between points i and i + 1. Its time is that of the
/// work alone, without waits for copies.
struct recorded_step {
  std::vector<double> segment_s{};
  std::vector<recorded_life> lives{};
  link_direction out{};       ///< device to host; a rate of 0: no copy was seen
  link_direction in{};        ///< host to device
  double wait_latency_s = 0;  ///< from a copy's end to the begin of what the compute stream held back for it
  std::vector<recorded_making> makings{};  ///< in the order of their begin

  friend bool operator==(const recorded_step&, const recorded_step&) = default;
};

}  // namespace hostoffload::inline v0
