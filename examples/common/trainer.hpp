#pragma once
// The training loop of one model, which has an element type and a placement table.

#include "device_array.hpp"
#include "tokens.hpp"
#include "training.hpp"

#include <hostoffload/hostoffload.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace examples {

/// Pinned host memory as an array.
template <class T>
class pinned_array {
public:
  explicit pinned_array(std::size_t size) : memory_(size * sizeof(T)), size_(size) {}
  [[nodiscard]] std::span<T> span() const { return {static_cast<T*>(memory_.region().begin), size_}; }

private:
  ho::pinned_allocation memory_;
  std::size_t size_;
};

/// `Model` names its types: `element_type`, `options_type` (a run_options with `model`, the sizes, and overlap()) and
/// `parameters_type` (a trained_arrays). It is built from a scheduler, the compute stream, sizes, rows of a micro batch
/// and parameters, and has forward, backward and logits. Where it has begin_step(stream) and end_step(options, stream),
/// these enclose all micro batches of a step and its update.
template <class Model>
class trainer final : public training {
public:
  using T = typename Model::element_type;
  using C = compute_t<T>;
  using options_type = typename Model::options_type;

  trainer(const options_type& o, const token_stream& data)
      : options_(o),
        data_(data),
        rows_(o.batch * o.model.sequence),
        micro_rows_(rows_ / o.micro_batches),
        parameters_(o.model, o.seed, stream_.get()),
        tokens_(rows_),
        targets_(rows_),
        total_(1),
        host_tokens_(2 * rows_),
        host_total_(1),
        scheduler_({.compute = stream_.get(),
                    .window = o.window,
                    .host_capacity = o.host_capacity,
                    .overlap = o.overlap(),
                    .plan = o.record}),
        model_(scheduler_, stream_.get(), o.model, micro_rows_, parameters_) {}

  ~trainer() override { static_cast<void>(cudaStreamSynchronize(stream_.get())); }

  double step() override {
    ++steps_;
    upload(steps_ - 1);
    const auto whole_step = [this] { return train(); };
    if (graph_) {
      graph_->launch();
    } else {
      scheduler_.run(whole_step);
    }
    const double loss = download_total();
    if (options_.graph && steps_ == steps_before_capture) graph_.emplace(scheduler_.capture(whole_step));
    return loss;
  }

  double compute_gradients(std::size_t batch) override {
    upload(batch);
    parameters_.zero_gradients(stream_.get());
    const auto whole_step = [this] { return learn(); };
    scheduler_.run(whole_step);
    return download_total();
  }

  double loss(std::size_t batch) override {
    upload(batch);
    for (std::size_t row = 0; row < rows_; row += micro_rows_) {
      const auto forward = [this, row] {
        return model_.forward(tokens_.data() + row, targets_.data() + row, scale(), total_.data());
      };
      scheduler_.run(forward);  // a step of its own: nothing ends the tensors' lives but the step's end
    }
    return download_total();
  }

  [[nodiscard]] std::vector<double> logits() override {
    const std::vector<T> stored = model_.logits().to_host(stream_.get());
    std::vector<double> values;
    for (const T value : stored) values.push_back(static_cast<double>(static_cast<C>(value)));
    return values;
  }

  [[nodiscard]] const std::vector<parameter>& list() const override { return parameters_.list(); }
  [[nodiscard]] std::vector<double> values() override { return widen(parameters_.values(stream_.get())); }
  [[nodiscard]] std::vector<double> gradients() override { return widen(parameters_.gradient_values(stream_.get())); }
  void set_values(const std::vector<double>& values) override {
    std::vector<C> narrow(values.size());
    std::transform(values.begin(), values.end(), narrow.begin(), [](double value) { return static_cast<C>(value); });
    parameters_.set_values(narrow, stream_.get());
  }
  [[nodiscard]] ho::step_report report() override { return scheduler_.report(); }
  [[nodiscard]] std::optional<ho::recorded_step> record() override { return scheduler_.record(); }

private:
  static constexpr std::size_t steps_before_capture = 2;  // in the first the scheduler learns, the second is steady

  [[nodiscard]] double scale() const { return 1 / static_cast<double>(rows_); }

  static std::vector<double> widen(const std::vector<C>& values) { return {values.begin(), values.end()}; }

  /// From zeroed gradients to updated weights. All that differs between steps lies on the device: tokens, the loss, and
  /// what AdamW knows of the step.
  ho::task<> train() {
    parameters_.zero_gradients(stream_.get());
    if constexpr (requires { model_.begin_step(stream_.get()); }) model_.begin_step(stream_.get());
    co_await learn();
    parameters_.update(options_.optimiser, stream_.get());
    if constexpr (requires { model_.end_step(options_, stream_.get()); }) model_.end_step(options_, stream_.get());
  }

  ho::task<> learn() {
    for (std::size_t row = 0; row < rows_; row += micro_rows_) {
      co_await model_.forward(tokens_.data() + row, targets_.data() + row, scale(), total_.data());
      co_await model_.backward(targets_.data() + row, scale());
    }
  }

  void upload(std::size_t batch) {
    const std::span<std::int32_t> inputs = host_tokens_.span().first(rows_);
    const std::span<std::int32_t> targets = host_tokens_.span().last(rows_);
    data_.fill(options_.seed, batch, options_.model.sequence, inputs, targets);
    const cudaStream_t s = stream_.get();
    ho::check(cudaMemcpyAsync(tokens_.data(), inputs.data(), inputs.size_bytes(), cudaMemcpyHostToDevice, s),
              "cudaMemcpyAsync");
    ho::check(cudaMemcpyAsync(targets_.data(), targets.data(), targets.size_bytes(), cudaMemcpyHostToDevice, s),
              "cudaMemcpyAsync");
    total_.zero(s);
  }

  double download_total() {
    const std::span<double> total = host_total_.span();
    ho::check(cudaMemcpyAsync(total.data(), total_.data(), total_.bytes(), cudaMemcpyDeviceToHost, stream_.get()),
              "cudaMemcpyAsync");
    ho::check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    return total.front();
  }

  options_type options_;
  const token_stream& data_;
  std::size_t rows_;
  std::size_t micro_rows_;
  std::size_t steps_ = 0;
  ho::stream stream_;
  typename Model::parameters_type parameters_;
  device_array<std::int32_t> tokens_, targets_;
  device_array<double> total_;  // the batch's loss
  pinned_array<std::int32_t> host_tokens_;
  pinned_array<double> host_total_;
  ho::prefetch_scheduler scheduler_;
  Model model_;
  std::optional<ho::step_graph> graph_;
};

}  // namespace examples
