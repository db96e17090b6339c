#pragma once
// What a layer keeps for its backward pass, and the workspace that all layers share.

#include "common.hpp"
#include "placements.hpp"
#include "sizes.hpp"

#include <hostoffload/hostoffload.hpp>

#include <cstddef>

namespace llama {

/// The named tensors of one layer for `rows` tokens. The table decides where each one stays.
template <class T, class Table>
struct layer {
  template <name Name, class Element = T>
  using tensor = ho::offload_tensor<Element, typename Table::template of<Name>>;

  layer(ho::prefetch_scheduler& scheduler, const sizes& model, std::size_t rows, ho::layer_position at)
      : input(scheduler, rows * model.hidden, at),
        q(scheduler, rows * model.hidden, at),
        k(scheduler, rows * model.kv_width(), at),
        v(scheduler, rows * model.kv_width(), at),
        attention(scheduler, rows * model.hidden, at),
        lse(scheduler, rows * model.heads, at),
        attention_out(scheduler, rows * model.hidden, at),
        gate(scheduler, rows * model.ffn, at),
        up(scheduler, rows * model.ffn, at),
        act(scheduler, rows * model.ffn, at) {}

  tensor<name::input> input;
  tensor<name::q> q;
  tensor<name::k> k;
  tensor<name::v> v;
  tensor<name::attention> attention;
  tensor<name::lse, compute_t<T>> lse;
  tensor<name::attention_out> attention_out;
  tensor<name::gate> gate;
  tensor<name::up> up;
  tensor<name::act> act;
};

/// Device memory that is written and read within one layer, or once between forward and backward: used again by every
/// layer, in the order of the compute stream.
template <class T>
struct workspace {
  using C = compute_t<T>;

  workspace(const sizes& model, std::size_t rows)
      : normed(rows * model.hidden),
        rstd(rows),
        last(rows * model.hidden),
        logits(rows * model.vocabulary),
        token_loss(rows),
        d_stream(rows * model.hidden),
        d_normed(rows * model.hidden),
        d_gate(rows * model.ffn),
        d_up(rows * model.ffn),
        d_act(rows * model.ffn),
        d_attention(rows * model.hidden),
        delta(rows * model.heads),
        d_q(rows * model.hidden),
        d_k(rows * model.kv_width()),
        d_v(rows * model.kv_width()),
        cosines(model.sequence * model.head_size() / 2),
        sines(model.sequence * model.head_size() / 2) {}

  device_array<T> normed;  // a norm's output
  device_array<C> rstd;    // ... and 1 / root mean square of its rows
  device_array<T> last;    // the residual stream behind the last layer
  device_array<T> logits;  // then their gradient
  device_array<C> token_loss;
  device_array<T> d_stream;  // gradient of the residual stream
  device_array<T> d_normed;
  device_array<T> d_gate, d_up, d_act;
  device_array<T> d_attention;
  device_array<C> delta;
  device_array<T> d_q, d_k, d_v;
  device_array<C> cosines, sines;  // of the rotary positions
};

}  // namespace llama
