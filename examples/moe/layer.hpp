#pragma once
// What a layer keeps for its backward pass, and the workspace that all layers share.

#include "placements.hpp"
#include "router.hpp"
#include "sizes.hpp"

#include "common/device_array.hpp"
#include "common/element.hpp"

#include <hostoffload/hostoffload.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace moe {

/// The named tensors of one layer for `rows` tokens. The table decides where each one stays.
template <class T, class Table>
struct layer {
  using C = examples::compute_t<T>;
  template <name Name, class Element = T>
  using tensor = ho::offload_tensor<Element, typename Table::template of<Name>>;

  /// The router's decisions, for each pair of token and expert.
  struct routing {
    routing(ho::prefetch_scheduler& scheduler, std::size_t pairs, ho::layer_position at)
        : probabilities(scheduler, pairs, at), experts(scheduler, pairs, at), slots(scheduler, pairs, at) {}
    tensor<name::probabilities, C> probabilities;
    tensor<name::experts, std::int32_t> experts;
    tensor<name::slots, std::int32_t> slots;
  };

  layer(ho::prefetch_scheduler& scheduler, const sizes& model, std::size_t rows, ho::layer_position at)
      : input(scheduler, rows * model.hidden, at),
        q_a(scheduler, rows * model.q_rank, at),
        kv_a(scheduler, rows * model.kv_a_width(), at),
        q(scheduler, rows * model.query_width(), at),
        k(scheduler, rows * model.query_width(), at),
        v(scheduler, rows * model.value_width(), at),
        attention(scheduler, rows * model.value_width(), at),
        lse(scheduler, rows * model.heads, at),
        attention_out(scheduler, rows * model.hidden, at),
        gate(scheduler, most(model, rows, at), at),
        up(scheduler, most(model, rows, at), at),
        act(scheduler, most(model, rows, at), at) {
    if (model.is_dense(at.index)) return;
    router.emplace(scheduler, rows * model.top_k, at);
    kept.resize(model.experts);
  }

  tensor<name::input> input;
  tensor<name::q_a> q_a;
  tensor<name::kv_a> kv_a;
  tensor<name::q> q;
  tensor<name::k> k;
  tensor<name::v> v;
  tensor<name::attention> attention;
  tensor<name::lse, C> lse;
  tensor<name::attention_out> attention_out;
  std::optional<routing> router;  // none in a dense layer
  tensor<name::gate> gate;        // of the shared experts for all rows, then of the routed ones in the order of slots
  tensor<name::up> up;
  tensor<name::act> act;

  // On the host, from the forward pass to the backward pass.
  std::vector<std::size_t> kept;  // pairs that each expert computes
  std::size_t routed = 0;         // their sum

private:
  static std::size_t most(const sizes& model, std::size_t rows, ho::layer_position at) {
    return model.ffn_elements(model.is_dense(at.index), rows, model.most_routed(rows));
  }
};

/// Device memory that is written and read within one layer, or once between forward and backward: used again by every
/// layer, in the order of the compute stream.
template <class T>
struct workspace {
  using C = examples::compute_t<T>;
  template <class Element>
  using array = examples::device_array<Element>;

  workspace(const sizes& m, std::size_t rows)
      : normed(rows * m.hidden),
        rstd(rows),
        last(rows * m.hidden),
        logits(rows * m.vocabulary),
        token_loss(rows),
        q_normed(rows * m.q_rank),
        kv_normed(rows * m.kv_rank),
        kv_b(rows * m.kv_b_width()),
        scores(rows * m.experts),
        expert_in(m.most_routed(rows) * m.hidden),
        expert_out(m.most_routed(rows) * m.hidden),
        d_stream(rows * m.hidden),
        d_normed(rows * m.hidden),
        d_gate(most_ffn(m, rows)),
        d_up(most_ffn(m, rows)),
        d_act(most_ffn(m, rows)),
        d_weights(rows * m.top_k),
        d_scores(rows * m.experts),
        d_attention(rows * m.value_width()),
        delta(rows * m.heads),
        d_q(rows * m.query_width()),
        d_k(rows * m.query_width()),
        d_v(rows * m.value_width()),
        d_q_a(rows * m.q_rank),
        d_kv_a(rows * m.kv_a_width()),
        cosines(m.sequence * m.rope / 2),
        sines(m.sequence * m.rope / 2) {}

  array<T> normed;  // a norm's output
  array<C> rstd;    // ... and 1 / root mean square of its rows
  array<T> last;    // the residual stream behind the last layer
  array<T> logits;  // then their gradient
  array<C> token_loss;
  array<T> q_normed, kv_normed;  // the low-rank forms behind their norms; then those gradients
  array<T> kv_b;                 // keys and values before they are split; then their gradient
  array<C> scores;               // of the router
  array<T> expert_in;            // in the order of the experts: their inputs
  array<T> expert_out;           // ... their outputs, the gradients of these, and then those of the inputs
  array<T> d_stream;             // gradient of the residual stream
  array<T> d_normed;
  array<T> d_gate, d_up, d_act;
  array<C> d_weights;
  array<T> d_scores;
  array<T> d_attention;
  array<C> delta;
  array<T> d_q, d_k, d_v, d_q_a, d_kv_a;
  array<C> cosines, sines;  // of the rotary positions

private:
  static std::size_t most_ffn(const sizes& m, std::size_t rows) {
    return std::max(m.ffn_elements(true, rows, 0), m.ffn_elements(false, rows, m.most_routed(rows)));
  }
};

}  // namespace moe
