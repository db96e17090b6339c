#pragma once
// The schedules of others, each as a CUDA program of its own for one step of a workload. What they do is read from
// their sources and issues (2026); where a rule leaves something open, the choice is in their favour and stated in
// peers.cpp.

#include "cuda_step.hpp"
#include "workload.hpp"

#include <string_view>
#include <vector>

namespace schedules {

struct peer {
  std::string_view name{};
  std::string_view rule{};  ///< for people
  /// Steps the workload once on the current virtual GPU.
  cuda_step::result (*step)(const workload& w) = nullptr;
};

/// synchronous, torchtune, transformer-engine, megatron, xla, pytorch, deepspeed
[[nodiscard]] const std::vector<peer>& peers();

}  // namespace schedules
