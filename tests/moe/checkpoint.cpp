// Checkpoints under Hugging Face's names: training goes on from what was saved, biases of the routers included.
#include "checkpoint.hpp"

#include "catch.hpp"
#include "runs.hpp"

#include "common/safetensors.hpp"
#include "training/scratch.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace {

std::string name_of(const moe::sizes& model, const std::string& here) {
  for (const examples::parameter& p : moe::list_parameters(model)) {
    if (p.name == here) return moe::hugging_face_name(p);
  }
  return {};
}

}  // namespace

TEST_CASE("parameters have transformers' names") {
  const moe::sizes m = moe_tests::small_options().model;
  CHECK(name_of(m, "embedding") == "model.embed_tokens.weight");
  CHECK(name_of(m, "layers.0.down") == "model.layers.0.mlp.down_proj.weight");
  CHECK(name_of(m, "layers.1.kv_a") == "model.layers.1.self_attn.kv_a_proj_with_mqa.weight");
  CHECK(name_of(m, "layers.1.q_norm") == "model.layers.1.self_attn.q_a_layernorm.weight");
  CHECK(name_of(m, "layers.2.router") == "model.layers.2.mlp.gate.weight");
  CHECK(name_of(m, "layers.2.bias") == "model.layers.2.mlp.gate.e_score_correction_bias");
  CHECK(name_of(m, "layers.2.shared.gate") == "model.layers.2.mlp.shared_experts.gate_proj.weight");
  CHECK(name_of(m, "layers.2.experts.5.up") == "model.layers.2.mlp.experts.5.up_proj.weight");
  CHECK(name_of(m, "norm") == "model.norm.weight");
  CHECK(name_of(m, "head") == "lm_head.weight");
}

TEST_CASE("training goes on from a checkpoint: the loss of a batch is the one it was saved with") {
  const auto type = GENERATE(examples::element::f32, examples::element::bf16);
  auto o = moe_tests::small_options();
  o.type = type;
  o.optimiser.learning_rate = 1e-2;
  o.balance_rate = 0.05;  // so that the biases decide
  o.placement = moe::plan::mixed;
  const examples::checkpoint_format format = moe::format_of(o.model);
  training_tests::fresh_gpu(o);
  std::string saved;
  double first = 0;
  double behind = 0;
  {
    const auto run = make_training(o, training_tests::text());
    first = run->step();
    for (int i = 0; i < 40; ++i) run->step();
    behind = run->loss(0);
    saved = examples::checkpoint(format, run->values(), type == examples::element::bf16);
  }
  CHECK(behind < first - 1);
  const scratch_file file(saved);
  std::vector<double> values = examples::load_checkpoint(file.path(), format);
  const auto loss_from = [&](const std::vector<double>& start) {
    o.start = std::make_shared<const std::vector<double>>(start);
    training_tests::fresh_gpu(o);
    return make_training(o, training_tests::text())->loss(0);
  };
  CHECK(loss_from(values) == behind);
  for (const auto& p : format.parameters) {
    if (p.here.kind != examples::parameter_kind::bias) continue;
    std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(p.here.offset), p.here.size(), 0.0);
  }
  CHECK(loss_from(values) != behind);
  training_tests::require_no_findings();
  training_tests::require_no_leaks();
}
