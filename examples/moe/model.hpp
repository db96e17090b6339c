#pragma once
// DeepSeek-V3 (arXiv 2412.19437): latent attention and a mixture of experts. Each layer says once how its tensors are
// made; forward and backward await them and do not know whether they were saved, brought back from the host or computed
// again. attention_block.hpp and ffn_block.hpp hold the two halves of a layer.

#include "attention_block.hpp"
#include "ffn_block.hpp"
#include "layer.hpp"
#include "parameters.hpp"
#include "training.hpp"

#include "common/kernels.hpp"
#include "common/matmul.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace moe {

/// Works on `rows` tokens (whole sequences) at a time. All is enqueued on `stream`, the scheduler's compute stream.
template <class T, class Table>
class model {
public:
  using C = examples::compute_t<T>;
  using element_type = T;
  using options_type = training_options;
  using parameters_type = parameters<T>;

  model(ho::prefetch_scheduler& scheduler, cudaStream_t stream, const sizes& shape, std::size_t rows,
        const parameters<T>& trained)
      : model(scheduler, stream, shape, rows, trained.weights(), trained.gradients(), trained.biases()) {}

  /// Biases of the routers, one for each layer and null in dense ones. Several layers may share arrays.
  model(ho::prefetch_scheduler& scheduler, cudaStream_t stream, const sizes& shape, std::size_t rows,
        model_arrays<T> weights, model_arrays<C> gradients, std::vector<C*> biases)
      : weights_(std::move(weights)),
        gradients_(std::move(gradients)),
        biases_(std::move(biases)),
        blas_(stream),
        work_(shape, rows),
        run_{shape, rows, stream, blas_, work_},
        attention_(run_),
        ffn_(run_, scheduler),
        loads_(shape.layers * shape.experts) {
    for (std::size_t i = 0; i < shape.layers; ++i) {
      layers_.push_back(std::make_unique<layer_t>(scheduler, shape, rows, ho::layer_position{i, shape.layers}));
    }
    for (std::size_t i = 0; i < shape.layers; ++i) {
      define_input(i);
      attention_.define(*layers_[i], weights_.layers[i]);
      ffn_.define(*layers_[i], weights_.layers[i], biases_[i]);
    }
    loads_.zero(stream);
    kernel::rope_angles(stream, work_.cosines.data(), work_.sines.data(), shape.sequence, shape.rope, rope_theta);
  }

  void begin_step(cudaStream_t stream) { loads_.zero(stream); }

  /// The routers' biases by the loads of all that was routed since begin_step.
  void end_step(const training_options& options, cudaStream_t stream) {
    for (std::size_t i = run_.shape.dense_layers; i < run_.shape.layers; ++i) {
      router<T>::balance(stream, run_.shape.experts, loads(i), options.balance_rate, biases_[i]);
    }
  }

  /// *total += scale * the sum of the losses. `tokens` and `targets`: device memory, [rows].
  ho::task<> forward(const std::int32_t* tokens, const std::int32_t* targets, double scale, double* total) {
    tokens_ = tokens;
    for (std::size_t i = 0; i < layers_.size(); ++i) {  // in the order of making: few tensors are in use at one time
      layer_t& l = *layers_[i];
      { auto x = co_await l.input; }
      auto behind_attention = co_await l.attention_out;  // until the layer's end: not to be made twice
      if (l.router) co_await ffn_.count(l, loads(i));
      if (i + 1 < layers_.size()) {
        auto next = co_await layers_[i + 1]->input;
      } else {
        co_await ffn_.forward(l, weights_.layers[i], work_.last.data());
      }
    }
    kernel::rms_norm(run_.stream, run_.norm(), work_.last.data(), weights_.norm, work_.normed.data(),
                     work_.rstd.data());
    linear::forward(blas_, head(), work_.normed.data(), weights_.head, work_.logits.data());
    kernel::cross_entropy(run_.stream, work_.logits.data(), targets, work_.token_loss.data(), run_.rows,
                          run_.shape.vocabulary);
    kernel::add_losses(run_.stream, work_.token_loss.data(), scale, total, run_.rows);
  }

  /// After forward: adds the gradients of scale * the sum of the losses. Ends the life of every tensor.
  ho::task<> backward(const std::int32_t* targets, double scale) {
    backward_head(targets, scale);
    for (std::size_t i = layers_.size(); i-- > 0;) {
      co_await ffn_.backward(*layers_[i], weights_.layers[i], gradients_.layers[i]);
      co_await attention_.backward(*layers_[i], weights_.layers[i], gradients_.layers[i]);
    }
    kernel::embed_backward(run_.stream, tokens_, work_.d_stream.data(), gradients_.embedding, run_.rows,
                           run_.shape.hidden, run_.shape.vocabulary);
  }

  /// Between forward and backward: [rows, vocabulary].
  [[nodiscard]] const examples::device_array<T>& logits() const { return work_.logits; }

private:
  using layer_t = layer<T, Table>;
  using kernel = examples::kernels<T>;
  using linear = examples::matmul<T>;

  [[nodiscard]] typename linear::shape head() const { return {run_.rows, run_.shape.hidden, run_.shape.vocabulary}; }
  [[nodiscard]] std::int32_t* loads(std::size_t layer) const { return loads_.data() + layer * run_.shape.experts; }

  void define_input(std::size_t i) {
    if (i == 0) {
      layers_[i]->input.define([this](std::span<T> out) {
        kernel::embed(run_.stream, tokens_, weights_.embedding, out.data(), run_.rows, run_.shape.hidden,
                      run_.shape.vocabulary);
      });
    } else {
      layers_[i]->input.define(
          [this, i](std::span<T> out) { return ffn_.forward(*layers_[i - 1], weights_.layers[i - 1], out.data()); });
    }
  }

  /// From the loss to d_stream behind the last layer.
  void backward_head(const std::int32_t* targets, double scale) {
    kernel::cross_entropy_backward(run_.stream, work_.logits.data(), targets, scale, run_.rows, run_.shape.vocabulary);
    linear::backward_weight(blas_, head(), work_.logits.data(), work_.normed.data(), gradients_.head);
    linear::backward_input(blas_, head(), work_.logits.data(), weights_.head, work_.d_normed.data());
    work_.d_stream.zero(run_.stream);
    kernel::rms_norm_backward(run_.stream, run_.norm(), work_.d_normed.data(), work_.last.data(), weights_.norm,
                              work_.rstd.data(), work_.d_stream.data(), gradients_.norm);
  }

  model_arrays<T> weights_;
  model_arrays<C> gradients_;
  std::vector<C*> biases_;
  examples::blas_context blas_;
  workspace<T> work_;
  layer_run<T> run_;
  attention_block<T, Table> attention_;
  ffn_block<T, Table> ffn_;
  examples::device_array<std::int32_t> loads_;  // [layers, experts], since begin_step
  std::vector<std::unique_ptr<layer_t>> layers_;
  const std::int32_t* tokens_ = nullptr;
};

}  // namespace moe
