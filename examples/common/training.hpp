#pragma once
// Training runs behind one interface: model, element type and placement are types, chosen at run time.

#include "parameters.hpp"

#include <hostoffload/options.hpp>
#include <hostoffload/report/step_report.hpp>
#include <hostoffload/schedule/recorded_step.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace examples {

enum class element { f32, bf16, f64 };

constexpr std::string_view to_string(element e) {
  constexpr std::array<std::string_view, 3> text{"float", "bf16", "double"};
  return text.at(static_cast<std::size_t>(e));
}
constexpr std::size_t bytes_of(element e) {
  constexpr std::array<std::size_t, 3> bytes{4, 2, 8};
  return bytes.at(static_cast<std::size_t>(e));
}

/// What every model's run has to be told.
struct run_options {
  element type = element::bf16;
  std::size_t batch = 4;          // sequences per step
  std::size_t micro_batches = 1;  // that the step is divided into; gradients are summed in their order
  std::uint64_t seed = 1;
  adamw_options optimiser;
  bool record = false;                                 // plan steps, and so record one: see training::record()
  bool graph = false;                                  // from the third on, steps are launches of a captured one
  std::size_t window = ho::unlimited;                  // bytes of device memory for offloaded tensors
  std::size_t host_capacity = ho::unlimited;           // bytes of pinned memory for them
  std::shared_ptr<const std::vector<double>> start{};  // weights, laid out as the run's list(); null: from the seed
};

/// Throws std::invalid_argument with one line where batch and micro batches do not fit together.
void check_batch(std::size_t batch, std::size_t micro_batches);

/// One run on the current device. All functions wait for the device. Errors: ho::error, of which ho::out_of_memory
/// means that the device's memory is too small.
class training {
public:
  training() = default;
  training(const training&) = delete;
  training& operator=(const training&) = delete;
  virtual ~training() = default;

  /// Forward, backward and update on the next batch. Returns the batch's mean loss in nats per token.
  virtual double step() = 0;

  /// Forward only, on a batch of that number.
  virtual double loss(std::size_t batch) = 0;

  /// What the last loss() computed for its last micro batch: [tokens, vocabulary].
  [[nodiscard]] virtual std::vector<double> logits() = 0;

  /// Forward and backward without an update.
  virtual double compute_gradients(std::size_t batch) = 0;

  /// Laid out as in list(). Values are the master copy.
  [[nodiscard]] virtual const std::vector<parameter>& list() const = 0;
  [[nodiscard]] virtual std::vector<double> values() = 0;
  [[nodiscard]] virtual std::vector<double> gradients() = 0;
  virtual void set_values(const std::vector<double>& values) = 0;

  /// Of the last step.
  [[nodiscard]] virtual ho::step_report report() = 0;

  /// The step that was timed last: the third, from the fifth on, where it was asked for.
  [[nodiscard]] virtual std::optional<ho::recorded_step> record() = 0;
};

}  // namespace examples
