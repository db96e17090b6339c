#pragma once
// Runs the placements side by side, and says what each one costs.

#include "device.hpp"
#include "example.hpp"
#include "options.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace examples {

/// What one training run did.
struct outcome {
  std::vector<double> losses;      // per step
  std::vector<double> parameters;  // at the end
  double step_s = 0;               // of a step: median of those behind the second
  double exposed_s = 0;            // of the last step for which the scheduler estimated it
  std::size_t gpu_peak_bytes = 0;
  std::size_t host_bytes = 0;  // pinned, for offloaded tensors
  std::size_t least_window_bytes = 0;
  std::optional<ho::recorded_step> record{};  // where the options ask for one
};

/// Called behind every step with its number from 1 and its loss.
using progress = std::function<void(std::size_t step, double loss)>;

/// Trains on the device, from fresh. Throws as example::make does.
outcome train(const example& of, device& on, device::variant variant, const run_options& options, std::size_t placement,
              const token_stream& data, std::size_t steps, const progress& report = {});

struct row {
  std::size_t placement = 0;  // number of the example's
  std::size_t batch = 0;
  bool fits = false;
  std::size_t missing_bytes = 0;  // on a GPU: of the allocation that failed. What follows is of runs that fit
  double step_s = 0;
  double tflops_per_device = 0;
  double exposed_s = 0;
  std::size_t gpu_peak_bytes = 0;
  std::size_t host_bytes = 0;
  double final_loss = 0;
  // Losses and parameters, to save with unlimited memory; nothing where a GPU has no memory for that.
  std::optional<bool> bitwise_equal_to_save{};
  std::vector<double> parameters{};           // at the end, where they are to be saved
  std::optional<ho::recorded_step> record{};  // of a run of its own, where it is to be written
};

/// The device that the options ask for.
device make_device(const example& of, const options& o);

std::vector<row> compare(const example& of, const options& o, device& on, const token_stream& data);

}  // namespace examples
