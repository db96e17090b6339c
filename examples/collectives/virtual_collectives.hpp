#pragma once
// A rank on the virtual GPU. Its peers exist as time on the network only: a collective is one kernel that occupies no
// SM, moves its bytes through the device's memory, and lasts latency + bytes over the link / rate. In execute mode its
// result is that of peers which hold the same values as this rank.

#include "collectives.hpp"

#include <memory>

namespace collectives {

/// Bytes per second that a rank sends, while it receives as many; seconds per pass around the ranks.
struct network {
  double reduce_and_gather = 0;  // all-gather and reduce-scatter; all-reduce is one of each
  double all_to_all = 0;
  double latency = 0;
};

/// What one rank sends, and receives, of an array of `bytes` over all ranks: (ranks - 1) / ranks of it.
[[nodiscard]] double link_bytes(double bytes, std::size_t ranks);

/// `ranks` at least 1 and rates positive; throws std::invalid_argument.
[[nodiscard]] std::unique_ptr<communicator> make_virtual_communicator(std::size_t ranks, std::size_t rank,
                                                                      const network& over);

}  // namespace collectives
