#pragma once
// The named tensors of one layer.

#include "placed_tensor.hpp"

#include <cstddef>

namespace replay {

struct layer {
  layer(ho::prefetch_scheduler& s, const run_options& o, ho::layer_position at)
      : index(at.index),
        routes(o.of.what.has_experts(at.index)),
        input(s, o, at),
        q_a(s, o, at),
        kv_a(s, o, at),
        q(s, o, at),
        k(s, o, at),
        v(s, o, at),
        attention(s, o, at),
        lse(s, o, at),
        attention_out(s, o, at),
        router(s, o, at),
        routed(s, o, at),
        gate(s, o, at),
        up(s, o, at),
        act(s, o, at) {}

  std::size_t index;
  bool routes;
  placed_tensor<tensor::input> input;
  placed_tensor<tensor::q_a> q_a;
  placed_tensor<tensor::kv_a> kv_a;
  placed_tensor<tensor::q> q;
  placed_tensor<tensor::k> k;
  placed_tensor<tensor::v> v;
  placed_tensor<tensor::attention> attention;
  placed_tensor<tensor::lse> lse;
  placed_tensor<tensor::attention_out> attention_out;
  placed_tensor<tensor::router> router;
  placed_tensor<tensor::routed> routed;
  placed_tensor<tensor::gate> gate;
  placed_tensor<tensor::up> up;
  placed_tensor<tensor::act> act;
};

}  // namespace replay
