#pragma once
// A decoder-only Llama. Each layer says once how its tensors are made; forward and backward await them and do not know
// whether they were saved, brought back from the host or computed again.

#include "layer.hpp"
#include "parameters.hpp"
#include "training.hpp"

#include "common/attention.hpp"
#include "common/kernels.hpp"
#include "common/matmul.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace llama {

/// Works on `rows` tokens (whole sequences) at a time. All is enqueued on `stream`, the scheduler's compute stream.
template <class T, class Table>
class model {
public:
  using C = compute_t<T>;
  using element_type = T;
  using options_type = training_options;
  using parameters_type = parameters<T>;

  model(ho::prefetch_scheduler& scheduler, cudaStream_t stream, const sizes& shape, std::size_t rows,
        const parameters<T>& trained)
      : shape_(shape),
        rows_(rows),
        stream_(stream),
        blas_(stream),
        weights_(trained.weights()),
        gradients_(trained.gradients()),
        work_(shape, rows) {
    for (std::size_t i = 0; i < shape.layers; ++i) {
      layers_.push_back(std::make_unique<layer_t>(scheduler, shape, rows, ho::layer_position{i, shape.layers}));
    }
    for (std::size_t i = 0; i < shape.layers; ++i) define(i);
    kernel::rope_angles(stream, work_.cosines.data(), work_.sines.data(), shape.sequence, shape.head_size(),
                        rope_theta);
  }

  /// *total += scale * the sum of the losses. `tokens` and `targets`: device memory, [rows].
  ho::task<> forward(const std::int32_t* tokens, const std::int32_t* targets, double scale, double* total) {
    tokens_ = tokens;
    for (const auto& l : layers_) {  // in the order of making, so that few tensors are in use at one time
      auto x = co_await l->input;
      x.end();
      auto behind_attention = co_await l->attention_out;
    }
    co_await add_ffn(*layers_.back(), weights_.layers.back(), work_.last.data());
    kernel::rms_norm(stream_, norm(), work_.last.data(), weights_.norm, work_.normed.data(), work_.rstd.data());
    linear::forward(blas_, head(), work_.normed.data(), weights_.head, work_.logits.data());
    kernel::cross_entropy(stream_, work_.logits.data(), targets, work_.token_loss.data(), rows_, shape_.vocabulary);
    kernel::add_losses(stream_, work_.token_loss.data(), scale, total, rows_);
  }

  /// After forward: adds the gradients of scale * the sum of the losses. Ends the life of every tensor.
  ho::task<> backward(const std::int32_t* targets, double scale) {
    backward_head(targets, scale);
    for (std::size_t i = shape_.layers; i-- > 0;) {
      co_await backward_ffn(*layers_[i], weights_.layers[i], gradients_.layers[i]);
      co_await backward_attention(*layers_[i], weights_.layers[i], gradients_.layers[i]);
    }
    kernel::embed_backward(stream_, tokens_, work_.d_stream.data(), gradients_.embedding, rows_, shape_.hidden,
                           shape_.vocabulary);
  }

  /// Between forward and backward: [rows, vocabulary].
  [[nodiscard]] const device_array<T>& logits() const { return work_.logits; }

private:
  using layer_t = layer<T, Table>;
  using kernel = examples::kernels<T>;
  using linear = examples::matmul<T>;
  using flash = examples::attention<T>;
  using shape_t = typename linear::shape;

  [[nodiscard]] shape_t square() const { return {rows_, shape_.hidden, shape_.hidden}; }
  [[nodiscard]] shape_t to_kv() const { return {rows_, shape_.hidden, shape_.kv_width()}; }
  [[nodiscard]] shape_t to_ffn() const { return {rows_, shape_.hidden, shape_.ffn}; }
  [[nodiscard]] shape_t from_ffn() const { return {rows_, shape_.ffn, shape_.hidden}; }
  [[nodiscard]] shape_t head() const { return {rows_, shape_.hidden, shape_.vocabulary}; }
  [[nodiscard]] examples::norm_shape norm() const { return {rows_, shape_.hidden, norm_epsilon}; }
  [[nodiscard]] examples::attention_shape heads() const {
    return {rows_, shape_.sequence, shape_.heads, shape_.kv_heads, shape_.head_size(), shape_.head_size()};
  }

  void rotate(T* x, std::size_t heads, int direction) {
    kernel::rope(stream_, x, work_.cosines.data(), work_.sines.data(), rows_, shape_.sequence, heads,
                 shape_.head_size(), direction);
  }

  /// How the tensors of layer i are made.
  void define(std::size_t i) {
    layer_t& l = *layers_[i];
    const layer_arrays<T>& w = weights_.layers[i];

    if (i == 0) {
      l.input.define([this](std::span<T> out) {
        kernel::embed(stream_, tokens_, weights_.embedding, out.data(), rows_, shape_.hidden, shape_.vocabulary);
      });
    } else {
      l.input.define(
          [this, i](std::span<T> out) { return add_ffn(*layers_[i - 1], weights_.layers[i - 1], out.data()); });
    }

    const auto make_qkv = [this, &l, &w](std::span<T> q, std::span<T> k, std::span<T> v) -> ho::task<> {
      auto x = co_await l.input;
      kernel::rms_norm(stream_, norm(), x.data(), w.attention_norm, work_.normed.data(), work_.rstd.data());
      linear::forward(blas_, square(), work_.normed.data(), w.q, q.data());
      linear::forward(blas_, to_kv(), work_.normed.data(), w.k, k.data());
      linear::forward(blas_, to_kv(), work_.normed.data(), w.v, v.data());
      rotate(q.data(), shape_.heads, 1);
      rotate(k.data(), shape_.kv_heads, 1);
    };
    ho::define_group(make_qkv, l.q, l.k, l.v);

    const auto make_attention = [this, &l](std::span<T> context, std::span<C> lse) -> ho::task<> {
      auto q = co_await l.q;
      auto k = co_await l.k;
      auto v = co_await l.v;
      flash::forward(stream_, heads(), q.data(), k.data(), v.data(), context.data(), lse.data());
    };
    ho::define_group(make_attention, l.attention, l.lse);

    l.attention_out.define([this, &l, &w](std::span<T> out) -> ho::task<> {
      auto context = co_await l.attention;
      auto x = co_await l.input;
      linear::forward(blas_, square(), context.data(), w.out, out.data(), x.data());
    });

    const auto make_gate_up = [this, &l, &w](std::span<T> gate, std::span<T> up) -> ho::task<> {
      auto x = co_await l.attention_out;
      kernel::rms_norm(stream_, norm(), x.data(), w.ffn_norm, work_.normed.data(), work_.rstd.data());
      linear::forward(blas_, to_ffn(), work_.normed.data(), w.gate, gate.data());
      linear::forward(blas_, to_ffn(), work_.normed.data(), w.up, up.data());
    };
    ho::define_group(make_gate_up, l.gate, l.up);

    l.act.define([this, &l](std::span<T> out) -> ho::task<> {
      auto gate = co_await l.gate;
      auto up = co_await l.up;
      kernel::swiglu(stream_, gate.data(), up.data(), out.data(), out.size());
    });
  }

  /// out = the residual stream behind the layer.
  ho::task<> add_ffn(layer_t& l, const layer_arrays<T>& w, T* out) {
    auto act = co_await l.act;
    auto x = co_await l.attention_out;
    linear::forward(blas_, from_ffn(), act.data(), w.down, out, x.data());
  }

  /// From the loss to d_stream behind the last layer.
  void backward_head(const std::int32_t* targets, double scale) {
    kernel::cross_entropy_backward(stream_, work_.logits.data(), targets, scale, rows_, shape_.vocabulary);
    linear::backward_weight(blas_, head(), work_.logits.data(), work_.normed.data(), gradients_.head);
    linear::backward_input(blas_, head(), work_.logits.data(), weights_.head, work_.d_normed.data());
    work_.d_stream.zero(stream_);
    kernel::rms_norm_backward(stream_, norm(), work_.d_normed.data(), work_.last.data(), weights_.norm,
                              work_.rstd.data(), work_.d_stream.data(), gradients_.norm);
  }

  /// d_stream: from behind the layer to behind its attention.
  ho::task<> backward_ffn(layer_t& l, const layer_arrays<T>& w, const layer_arrays<C>& g) {
    {
      auto act = co_await std::move(l.act);
      linear::backward_weight(blas_, from_ffn(), work_.d_stream.data(), act.data(), g.down);
      linear::backward_input(blas_, from_ffn(), work_.d_stream.data(), w.down, work_.d_act.data());
    }
    {
      auto gate = co_await std::move(l.gate);
      auto up = co_await std::move(l.up);
      kernel::swiglu_backward(stream_, gate.data(), up.data(), work_.d_act.data(), work_.d_gate.data(),
                              work_.d_up.data(), up.size());
    }
    auto x = co_await std::move(l.attention_out);
    kernel::rms_norm(stream_, norm(), x.data(), w.ffn_norm, work_.normed.data(), work_.rstd.data());
    linear::backward_weight(blas_, to_ffn(), work_.d_gate.data(), work_.normed.data(), g.gate);
    linear::backward_weight(blas_, to_ffn(), work_.d_up.data(), work_.normed.data(), g.up);
    linear::backward_input(blas_, to_ffn(), work_.d_gate.data(), w.gate, work_.d_normed.data());
    linear::backward_input(blas_, to_ffn(), work_.d_up.data(), w.up, work_.d_normed.data(), true);
    kernel::rms_norm_backward(stream_, norm(), work_.d_normed.data(), x.data(), w.ffn_norm, work_.rstd.data(),
                              work_.d_stream.data(), g.ffn_norm);
  }

  /// d_stream: from behind the attention to the layer's input.
  ho::task<> backward_attention(layer_t& l, const layer_arrays<T>& w, const layer_arrays<C>& g) {
    {
      auto context = co_await std::move(l.attention);
      auto lse = co_await std::move(l.lse);
      linear::backward_weight(blas_, square(), work_.d_stream.data(), context.data(), g.out);
      linear::backward_input(blas_, square(), work_.d_stream.data(), w.out, work_.d_attention.data());
      auto q = co_await std::move(l.q);
      auto k = co_await std::move(l.k);
      auto v = co_await std::move(l.v);
      flash::backward(stream_, heads(), q.data(), k.data(), v.data(), context.data(), lse.data(),
                      work_.d_attention.data(), work_.delta.data(), work_.d_q.data(), work_.d_k.data(),
                      work_.d_v.data());
    }
    rotate(work_.d_q.data(), shape_.heads, -1);
    rotate(work_.d_k.data(), shape_.kv_heads, -1);
    auto x = co_await std::move(l.input);
    kernel::rms_norm(stream_, norm(), x.data(), w.attention_norm, work_.normed.data(), work_.rstd.data());
    linear::backward_weight(blas_, square(), work_.d_q.data(), work_.normed.data(), g.q);
    linear::backward_weight(blas_, to_kv(), work_.d_k.data(), work_.normed.data(), g.k);
    linear::backward_weight(blas_, to_kv(), work_.d_v.data(), work_.normed.data(), g.v);
    linear::backward_input(blas_, square(), work_.d_q.data(), w.q, work_.d_normed.data());
    linear::backward_input(blas_, to_kv(), work_.d_k.data(), w.k, work_.d_normed.data(), true);
    linear::backward_input(blas_, to_kv(), work_.d_v.data(), w.v, work_.d_normed.data(), true);
    kernel::rms_norm_backward(stream_, norm(), work_.d_normed.data(), x.data(), w.attention_norm, work_.rstd.data(),
                              work_.d_stream.data(), g.attention_norm);
  }

  sizes shape_;
  std::size_t rows_;
  cudaStream_t stream_;
  examples::blas_context blas_;
  model_arrays<T> weights_;
  model_arrays<C> gradients_;
  workspace<T> work_;
  std::vector<std::unique_ptr<layer_t>> layers_;
  const std::int32_t* tokens_ = nullptr;
};

}  // namespace llama
