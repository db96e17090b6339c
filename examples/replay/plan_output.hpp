#pragma once
// A plan as text, as JSON, and as a header with a placement table.

#include "plan.hpp"

#include <string>
#include <vector>

namespace replay {

/// What was planned: a model, the machine that it runs on, and the answer.
struct planned_run {
  description of;
  std::string machine;
  planned answer;
};

[[nodiscard]] std::string table(const planned_run& run);

/// {"plans": [{"model", "machine", "device_memory_gib", "host_memory_gib", "window_layers", "micro_batch",
/// "tflops_per_device", "step_s", "gpu_peak_gib", "host_gib", "bound_tflops_per_device", "bound_step_s",
/// "bound_tflops_per_device_at_any_micro_batch", "evaluations", "placements": [{"tensor", "first_layer", "end_layer",
/// "choice"}, …], "micro_batches": [{"micro_batch", "tflops_per_device", "bound_tflops_per_device"}, …]}, …]}. The
/// bounds that name no other are of the micro batch planned for; null: no mix that was tried fits.
[[nodiscard]] std::string json(const std::vector<planned_run>& runs);

/// For a program whose enumeration has the names of `tensor`. The answer has a best.
[[nodiscard]] std::string header(const planned_run& run);

}  // namespace replay
