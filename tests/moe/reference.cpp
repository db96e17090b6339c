// Loss, logits and every gradient against those of PyTorch and transformers: tests/moe/reference/make_reference.py made
// the files, and says how.
#include "training/reference.hpp"

#include "catch.hpp"
#include "checkpoint.hpp"
#include "training.hpp"

#include <string>
#include <vector>

using moe::plan;

namespace {

struct reference {
  std::string name;
  moe::sizes model;
  std::size_t sequences;
};

/// As in make_reference.py.
std::vector<reference> references() {
  moe::sizes groups;
  groups.layers = 3;
  groups.dense_layers = 1;
  groups.hidden = 24;
  groups.heads = 3;
  groups.q_rank = 10;
  groups.kv_rank = 7;
  groups.rope = 4;
  groups.nope = 6;
  groups.value = 5;
  groups.dense_ffn = 29;
  groups.experts = 8;
  groups.top_k = 3;
  groups.expert_ffn = 9;
  groups.groups = 4;
  groups.top_groups = 2;
  groups.vocabulary = 37;
  groups.sequence = 9;
  moe::sizes one_group;
  one_group.layers = 2;
  one_group.dense_layers = 0;
  one_group.hidden = 18;
  one_group.heads = 2;
  one_group.q_rank = 7;
  one_group.kv_rank = 9;
  one_group.rope = 6;
  one_group.nope = 5;
  one_group.value = 8;
  one_group.dense_ffn = 21;
  one_group.experts = 5;
  one_group.top_k = 2;
  one_group.shared = 2;
  one_group.expert_ffn = 11;
  one_group.groups = 1;
  one_group.top_groups = 1;
  one_group.routed_scale = 1;
  one_group.vocabulary = 41;
  one_group.sequence = 7;
  return {{"moe_groups", groups, 3}, {"moe_one_group", one_group, 2}};
}

}  // namespace

TEST_CASE("loss, logits and gradients are those of PyTorch, under each placement") {
  for (const reference& r : references()) {
    for (const plan p : moe::all_plans) {
      INFO("placement " << to_string(p));
      moe::training_options o;
      o.model = r.model;
      o.placement = p;
      o.batch = r.sequences;
      training_tests::compare_with_reference(o, r.name, moe::format_of(r.model));
    }
  }
}

TEST_CASE("a checkpoint of transformers, read and written again, has the same tensors") {
  for (const reference& r : references()) training_tests::compare_checkpoints(r.name, moe::format_of(r.model));
}
