#pragma once
// "Should I offload, and what?": a described model on a described machine, under several placements.

#include "rows.hpp"

#include <string>
#include <vector>

namespace replay {

struct own_row {
  std::string placement;
  std::string put_away;  // for people
  std::size_t micro_batch = 0;
  bool largest = false;  // that fits
  outcome simulated{};
};

/// Each placement at the described micro batch and at the largest that fits. `window_layers` is our scheduler's.
[[nodiscard]] std::vector<own_row> compare(const description& d, const vgpu::machine& machine, double window_layers,
                                           const assumptions& with);

}  // namespace replay
