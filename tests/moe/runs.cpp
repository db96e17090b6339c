#include "runs.hpp"

namespace moe_tests {

moe::training_options small_options() {
  moe::training_options o;
  moe::sizes& m = o.model;
  m.layers = 3;
  m.hidden = 16;
  m.heads = 2;
  m.q_rank = 6;
  m.kv_rank = 5;
  m.rope = 4;
  m.nope = 3;
  m.value = 6;
  m.dense_ffn = 20;
  m.experts = 6;
  m.top_k = 2;
  m.expert_ffn = 7;
  m.groups = 3;
  m.top_groups = 2;
  m.sequence = 8;
  o.type = examples::element::f32;
  o.batch = 6;
  o.seed = 7;
  return o;
}

}  // namespace moe_tests
