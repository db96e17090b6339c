#pragma once
// Puts a step together from layers that are alike or not, and from an order of passes over micro batches.

#include "workload.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace schedules {

/// A tensor of one layer: made by a piece of the forward pass, used by later ones and by pieces of the backward pass.
struct layer_tensor {
  std::string name{};
  double bytes = 0;
  std::size_t made = 0;
  std::vector<std::size_t> forward_uses{};
  std::vector<std::size_t> backward_uses{};
};

/// Work of the pieces of a layer, in FLOP or any other unit.
struct layer_shape {
  std::vector<double> forward{};
  std::vector<double> backward{};
  std::vector<layer_tensor> tensors{};

  [[nodiscard]] double work() const;
};

class step_builder {
public:
  /// The layers from the first to the last; the loss and what comes after them are a layer without tensors.
  step_builder(std::string name, std::vector<layer_shape> layers, std::size_t micro_batches);

  /// How fast the segments added from now on do their work.
  void set_rate(double work_per_second) { rate_ = work_per_second; }
  void forward(std::size_t micro_batch);
  void backward(std::size_t micro_batch);
  void idle(double seconds);
  /// Forward and backward of each micro batch, one after the other.
  void all_in_turn();

  [[nodiscard]] double forward_work() const;
  [[nodiscard]] double backward_work() const;
  /// The step, checked; the builder is empty then. See workload for the arguments.
  [[nodiscard]] workload finish(std::string machine, const link_rates& link, std::string source);

private:
  std::vector<layer_shape> layers_;
  double rate_ = 1;
  workload w_;
  std::vector<std::vector<std::vector<std::size_t>>> tensors_;  // by micro batch and layer: index in the workload
};

}  // namespace schedules
