#include "runs.hpp"

namespace llama_tests {

llama::training_options small_options() {
  llama::training_options o;
  o.model.layers = 3;
  o.model.hidden = 16;
  o.model.heads = 4;
  o.model.kv_heads = 2;
  o.model.ffn = 24;
  o.model.sequence = 8;
  o.type = llama::element::f32;
  o.batch = 6;
  o.seed = 7;
  return o;
}

}  // namespace llama_tests
