#pragma once
// Runs the placements side by side on a virtual GPU, and says what each one costs.

#include "options.hpp"

#include <hostoffload/virtual_gpu/control.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace llama {

namespace vgpu = hostoffload::virtual_gpu;

/// What one training run did.
struct outcome {
  std::vector<double> losses;      // per step
  std::vector<double> parameters;  // at the end
  double step_s = 0;               // virtual seconds of a step: median of those behind the second
  std::size_t gpu_peak_bytes = 0;
  std::size_t host_bytes = 0;  // pinned, for offloaded tensors
  std::size_t least_window_bytes = 0;
};

/// Called behind every step with its number from 1 and its loss.
using progress = std::function<void(std::size_t step, double loss)>;

/// Trains on that machine, from fresh. Throws as make_training does.
outcome train(const vgpu::machine& machine, const training_options& options, const token_stream& data,
              std::size_t steps, const progress& report = {});

struct row {
  plan placement = plan::save;
  std::size_t batch = 0;
  bool fits = false;
  std::size_t missing_bytes = 0;  // what follows is of runs that fit
  double step_s = 0;
  double tflops_per_device = 0;
  double exposed_s = 0;
  std::size_t gpu_peak_bytes = 0;
  std::size_t host_bytes = 0;
  double final_loss = 0;
  bool bitwise_equal_to_save = false;  // losses and parameters, to save with unlimited memory
  std::vector<double> parameters{};    // at the end, where they are to be saved
};

/// The machine that the options describe.
vgpu::machine describe_machine(const options& o);

std::vector<row> compare(const options& o, const vgpu::machine& machine, const token_stream& data);

}  // namespace llama
