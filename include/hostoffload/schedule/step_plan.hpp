#pragma once
// What a step will do: which tensors leave the window and when they come back, and where each lies. Made by plan_step()
// and plan_least_window(), which are in plan_step.hpp.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hostoffload::inline v0 {

/// The plan for one recorded_life. Copies are issued in phases of the compute stream: 2·p, when it has reached point p
/// and leases that end there have ended; 2·p + 1, when leases that begin there have begun.
struct life_plan {
  bool planned = false;         ///< in the window: an offloaded tensor
  bool copied = false;          ///< leaves in the longest gap between its uses and comes back; otherwise it stays
  std::uint32_t out_at = 0;     ///< phase at which its copy out is issued
  std::uint32_t in_at = 0;      ///< phase before which its copy in does not start
  std::size_t offset = 0;       ///< of its slot in the window, until it leaves
  std::size_t offset_back = 0;  ///< and of the one that it comes back to

  friend bool operator==(const life_plan&, const life_plan&) = default;
};

struct step_plan {
  std::vector<life_plan> lives{};          ///< as in the recorded step
  std::vector<std::uint32_t> out_order{};  ///< lives, in the order of their copies
  std::vector<std::uint32_t> in_order{};
  std::vector<std::uint32_t> slot_order{};  ///< lives, in the order in which they are given slots, twice those copied
  std::size_t window_bytes = 0;             ///< of the slab that the plan fills: its peak
  std::size_t alive_bytes = 0;              ///< the largest sum of slots at one time: no packing needs less
  double step_s = 0;                        ///< predicted
  double compute_s = 0;                     ///< of the compute stream alone: step_s - compute_s is exposed
  double bound_s = 0;                       ///< no step that copies every tensor is shorter

  friend bool operator==(const step_plan&, const step_plan&) = default;
};

}  // namespace hostoffload::inline v0
