#pragma once
// The second half of a layer: a dense SwiGLU block, or shared and routed experts, forward and backward.

#include "attention_block.hpp"
#include "layer.hpp"
#include "parameters.hpp"
#include "permute.hpp"
#include "router.hpp"

#include "common/kernels.hpp"
#include "common/matmul.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

namespace moe {

template <class T, class Table>
class ffn_block {
public:
  using C = examples::compute_t<T>;
  using layer_t = layer<T, Table>;

  ffn_block(const layer_run<T>& run, const ho::prefetch_scheduler& scheduler)
      : run_(run), order_(routing(), run.stream), host_kept_(scheduler, run.shape.experts) {}

  /// How the layer's tensors from the router to act are made. `bias` is that of the router.
  void define(layer_t& l, const layer_arrays<T>& w, const C* bias) {
    if (l.router) {
      const auto make_routing = [this, &l, &w, bias](std::span<C> probabilities, std::span<std::int32_t> experts,
                                                     std::span<std::int32_t> slots) -> ho::task<> {
        auto x = co_await l.attention_out;
        norm(x.data(), w);
        linear::forward_unrounded(run_.blas, to_scores(), work().normed.data(), w.router, work().scores.data());
        router<T>::choose(run_.stream, routing(), work().scores.data(), bias, probabilities.data(), experts.data());
        order_.make(run_.stream, routing(), experts.data(), slots.data());
      };
      ho::define_group(make_routing, l.router->probabilities, l.router->experts, l.router->slots);

      const auto make_gate_up = [this, &l, &w](std::span<T> gate, std::span<T> up) -> ho::task<> {
        auto x = co_await l.attention_out;
        auto slots = co_await l.router->slots;
        fit(l, l.gate);
        fit(l, l.up);
        norm(x.data(), w);
        linear::forward(run_.blas, to_ffn(l), work().normed.data(), w.ffn.gate, gate.data());
        linear::forward(run_.blas, to_ffn(l), work().normed.data(), w.ffn.up, up.data());
        gather_inputs(l, slots.data());
        for_experts(l, [&](std::size_t e, std::size_t first, std::size_t rows) {
          const T* const in = work().expert_in.data() + first * run_.shape.hidden;
          linear::forward(run_.blas, to_expert(rows), in, w.experts[e].gate, gate.data() + routed_at(first));
          linear::forward(run_.blas, to_expert(rows), in, w.experts[e].up, up.data() + routed_at(first));
        });
      };
      ho::define_group(make_gate_up, l.gate, l.up);
    } else {
      const auto make_gate_up = [this, &l, &w](std::span<T> gate, std::span<T> up) -> ho::task<> {
        auto x = co_await l.attention_out;
        norm(x.data(), w);
        linear::forward(run_.blas, to_ffn(l), work().normed.data(), w.ffn.gate, gate.data());
        linear::forward(run_.blas, to_ffn(l), work().normed.data(), w.ffn.up, up.data());
      };
      ho::define_group(make_gate_up, l.gate, l.up);
    }

    l.act.define([this, &l](std::span<T> out) -> ho::task<> {
      auto gate = co_await l.gate;
      auto up = co_await l.up;
      fit(l, l.act);
      kernel::swiglu(run_.stream, gate.data(), up.data(), out.data(), elements(l));
    });
  }

  /// Once per forward pass, before gate is made: routes, adds to `loads`, and reads on the host how many pairs each
  /// expert computes; the products are enqueued with these numbers of rows.
  ho::task<> count(layer_t& l, std::int32_t* loads) {
    auto experts = co_await l.router->experts;
    order_.add_loads(run_.stream, run_.shape.experts, loads);
    auto kept = co_await host_kept_.read(order_.kept(), run_.shape.experts, run_.stream);
    std::transform(kept.begin(), kept.end(), l.kept.begin(),
                   [](std::int32_t n) { return static_cast<std::size_t>(n); });
    l.routed = std::accumulate(l.kept.begin(), l.kept.end(), std::size_t{0});
    if (!run_.shape.room_for_routed) co_return;
    l.gate.resize(elements(l));
    l.up.resize(elements(l));
    l.act.resize(elements(l));
  }

  /// out = the residual stream behind the layer.
  ho::task<> forward(layer_t& l, const layer_arrays<T>& w, T* out) {
    auto act = co_await l.act;
    auto x = co_await l.attention_out;
    linear::forward(run_.blas, from_ffn(l), act.data(), w.ffn.down, out, x.data());
    if (!l.router) co_return;
    auto probabilities = co_await l.router->probabilities;
    auto slots = co_await l.router->slots;
    for_experts(l, [&](std::size_t e, std::size_t first, std::size_t rows) {
      linear::forward(run_.blas, from_expert(rows), act.data() + routed_at(first), w.experts[e].down,
                      work().expert_out.data() + first * run_.shape.hidden);
    });
    permute<T>::combine(run_.stream, routing(), l.routed, run_.shape.hidden, work().expert_out.data(),
                        probabilities.data(), slots.data(), out);
  }

  /// d_stream: from behind the layer to behind its attention.
  ho::task<> backward(layer_t& l, const layer_arrays<T>& w, const layer_arrays<C>& g) {
    {
      auto act = co_await std::move(l.act);
      linear::backward_weight(run_.blas, from_ffn(l), work().d_stream.data(), act.data(), g.ffn.down);
      linear::backward_input(run_.blas, from_ffn(l), work().d_stream.data(), w.ffn.down, work().d_act.data());
      if (l.router) {
        auto probabilities = co_await l.router->probabilities;
        auto slots = co_await l.router->slots;
        backward_down(l, w, g, act.data(), probabilities.data(), slots.data());
      }
    }
    {
      auto gate = co_await std::move(l.gate);
      auto up = co_await std::move(l.up);
      kernel::swiglu_backward(run_.stream, gate.data(), up.data(), work().d_act.data(), work().d_gate.data(),
                              work().d_up.data(), elements(l));
    }
    if (l.router) {
      auto probabilities = co_await std::move(l.router->probabilities);
      auto experts = co_await std::move(l.router->experts);
      router<T>::backward(run_.stream, routing(), probabilities.data(), experts.data(), work().d_weights.data(),
                          work().d_scores.data());
    }
    auto x = co_await std::move(l.attention_out);
    norm(x.data(), w);
    linear::backward_weight(run_.blas, to_ffn(l), work().d_gate.data(), work().normed.data(), g.ffn.gate);
    linear::backward_weight(run_.blas, to_ffn(l), work().d_up.data(), work().normed.data(), g.ffn.up);
    linear::backward_input(run_.blas, to_ffn(l), work().d_gate.data(), w.ffn.gate, work().d_normed.data());
    linear::backward_input(run_.blas, to_ffn(l), work().d_up.data(), w.ffn.up, work().d_normed.data(), true);
    if (l.router) {
      auto slots = co_await std::move(l.router->slots);
      backward_gate_up(l, w, g, slots.data());
      linear::backward_weight(run_.blas, to_scores(), work().d_scores.data(), work().normed.data(), g.router);
      linear::backward_input(run_.blas, to_scores(), work().d_scores.data(), w.router, work().d_normed.data(), true);
    }
    kernel::rms_norm_backward(run_.stream, run_.norm(), work().d_normed.data(), x.data(), w.ffn_norm,
                              work().rstd.data(), work().d_stream.data(), g.ffn_norm);
  }

private:
  using kernel = examples::kernels<T>;
  using linear = examples::matmul<T>;
  using shape_t = typename linear::shape;

  [[nodiscard]] workspace<T>& work() const { return run_.work; }
  [[nodiscard]] std::size_t width(const layer_t& l) const {
    return l.router ? run_.shape.shared_ffn() : run_.shape.dense_ffn;
  }
  [[nodiscard]] shape_t to_ffn(const layer_t& l) const { return {run_.rows, run_.shape.hidden, width(l)}; }
  [[nodiscard]] shape_t from_ffn(const layer_t& l) const { return {run_.rows, width(l), run_.shape.hidden}; }
  [[nodiscard]] shape_t to_scores() const { return {run_.rows, run_.shape.hidden, run_.shape.experts}; }
  [[nodiscard]] shape_t to_expert(std::size_t rows) const { return {rows, run_.shape.hidden, run_.shape.expert_ffn}; }
  [[nodiscard]] shape_t from_expert(std::size_t rows) const { return {rows, run_.shape.expert_ffn, run_.shape.hidden}; }
  [[nodiscard]] routing_shape routing() const {
    const sizes& s = run_.shape;
    return {run_.rows, s.experts, s.top_k, s.groups, s.top_groups, s.routed_scale, s.capacity(run_.rows)};
  }
  /// Of gate, up and act, as many as are used.
  [[nodiscard]] std::size_t elements(const layer_t& l) const {
    return run_.shape.ffn_elements(!l.router, run_.rows, l.routed);
  }
  /// Where, in gate, up and act, the routed row `first` begins.
  [[nodiscard]] std::size_t routed_at(std::size_t first) const {
    return run_.rows * run_.shape.shared_ffn() + first * run_.shape.expert_ffn;
  }

  /// Where a tensor has room for what the capacity allows: only what was routed is stowed.
  template <class Tensor>
  void fit(const layer_t& l, Tensor& t) const {
    if (l.router && !run_.shape.room_for_routed) t.resize(elements(l));
  }

  void norm(const T* x, const layer_arrays<T>& w) {
    kernel::rms_norm(run_.stream, run_.norm(), x, w.ffn_norm, work().normed.data(), work().rstd.data());
  }
  void gather_inputs(const layer_t& l, const std::int32_t* slots) {
    permute<T>::gather(run_.stream, routing(), l.routed, run_.shape.hidden, work().normed.data(), slots,
                       work().expert_in.data());
  }

  /// f(expert, its first row, its rows) for each that has any.
  template <class F>
  static void for_experts(const layer_t& l, const F& f) {
    std::size_t first = 0;
    for (std::size_t e = 0; e < l.kept.size(); ++e) {
      if (l.kept[e] != 0) f(e, first, l.kept[e]);
      first += l.kept[e];
    }
  }

  /// Of the routed experts: d_act, d_weights and the gradients of the down-projections.
  void backward_down(const layer_t& l, const layer_arrays<T>& w, const layer_arrays<C>& g, const T* act,
                     const C* probabilities, const std::int32_t* slots) {
    const std::size_t hidden = run_.shape.hidden;
    T* const d_out = work().expert_out.data();
    permute<T>::gather(run_.stream, routing(), l.routed, hidden, work().d_stream.data(), slots, d_out);
    for_experts(l, [&](std::size_t e, std::size_t first, std::size_t rows) {
      linear::backward_input(run_.blas, from_expert(rows), d_out + first * hidden, w.experts[e].down,
                             work().d_act.data() + routed_at(first));
    });
    permute<T>::weigh_backward(run_.stream, routing(), l.routed, hidden, run_.shape.expert_ffn, probabilities, slots,
                               act + routed_at(0), d_out, work().d_act.data() + routed_at(0), work().d_weights.data());
    for_experts(l, [&](std::size_t e, std::size_t first, std::size_t rows) {
      linear::backward_weight(run_.blas, from_expert(rows), d_out + first * hidden, act + routed_at(first),
                              g.experts[e].down);
    });
  }

  /// Of the routed experts: their part of d_normed and the gradients of gate and up. `normed` is in place.
  void backward_gate_up(const layer_t& l, const layer_arrays<T>& w, const layer_arrays<C>& g,
                        const std::int32_t* slots) {
    gather_inputs(l, slots);
    for_experts(l, [&](std::size_t e, std::size_t first, std::size_t rows) {
      const T* const in = work().expert_in.data() + first * run_.shape.hidden;
      const T* const d_gate = work().d_gate.data() + routed_at(first);
      const T* const d_up = work().d_up.data() + routed_at(first);
      T* const d_in = work().expert_out.data() + first * run_.shape.hidden;
      linear::backward_weight(run_.blas, to_expert(rows), d_gate, in, g.experts[e].gate);
      linear::backward_weight(run_.blas, to_expert(rows), d_up, in, g.experts[e].up);
      linear::backward_input(run_.blas, to_expert(rows), d_gate, w.experts[e].gate, d_in);
      linear::backward_input(run_.blas, to_expert(rows), d_up, w.experts[e].up, d_in, true);
    });
    permute<T>::gather_backward(run_.stream, routing(), l.routed, run_.shape.hidden, work().expert_out.data(), slots,
                                work().d_normed.data());
  }

  layer_run<T> run_;
  expert_order order_;
  ho::host_values<std::int32_t> host_kept_;
};

}  // namespace moe
