#pragma once
// One run: a model in one layout, with one placement and one schedule, stepped on a virtual GPU in dry mode.

#include "assumptions.hpp"
#include "costs.hpp"
#include "description.hpp"
#include "tensors.hpp"

#include <hostoffload/virtual_gpu/machine.hpp>

#include <cstddef>
#include <vector>

namespace replay {

namespace vgpu = hostoffload::virtual_gpu;

/// When copies and collectives are issued and waited for.
struct schedule {
  bool overlap = true;        // copies on streams of their own; else each where it is needed, on the compute stream
  double window_layers = 0;   // device memory for offloaded tensors, in those of the largest layer
  bool whole_layers = false;  // a layer's offloaded tensors are fetched before its backward pass begins and kept to its
                              // end, as a compiled loop does; else each from its first use to its last
  double exposed = 0;         // share of each collective that is waited for where it is issued
  std::size_t buffers = 2;    // layers for whose gathered weights, and gradients, there is room
};

struct run_options {
  description of;
  placements placed{};
  schedule when;
  assumptions with;
  std::vector<placements> by_layer{};  // where there are any: of each layer, in place of `placed`
};

struct outcome {
  bool fits = false;
  double missing_gib = 0;     // of the allocation that failed, where it does not fit ...
  bool host_is_full = false;  // ... in pinned host memory
  double step_s = 0;
  double tflops_per_device = 0;  // by MaxText's rule
  double gpu_peak_gib = 0;       // of all device memory in use at one time
  double host_gib = 0;           // pinned
  double window_gib = 0;
  double late_fetches = 0;  // of the last step
};

/// One rank of many: its pool of the device's memory, and its part of a host memory and link that all devices of the
/// host use at the same time.
[[nodiscard]] vgpu::machine as_rank(vgpu::machine m, const assumptions& with);

/// Where everything is stored as `chosen` says for the tensors in `set`: the layers' inputs are saved, all else is
/// computed again.
[[nodiscard]] placements place(const tensor_set& set, ho::choice chosen);

/// Of one tensor; a program that is compiled with a placement table (placed_tensor.hpp) has that table's.
[[nodiscard]] ho::choice placed_at(const run_options& o, tensor t, std::size_t layer);

/// What the step of `o` costs the compute stream, when everything is saved on a `machine` that has room for that and
/// each kernel and collective takes the time that it takes alone. Streams and events only add up and take the later of
/// two moments, so whatever else a step does, none of its moments comes earlier than here.
[[nodiscard]] step_costs measure_costs(const vgpu::machine& machine, const run_options& o);

/// Resets the virtual GPU to `machine`, which is as_rank's. Throws std::invalid_argument where it cannot run this.
[[nodiscard]] outcome step(const vgpu::machine& machine, const run_options& o);

}  // namespace replay
