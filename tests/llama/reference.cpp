// Loss, logits and every gradient against those of PyTorch and transformers: tests/llama/reference/make_reference.py
// made the files, and says how.
#include "training/reference.hpp"

#include "catch.hpp"
#include "checkpoint.hpp"
#include "training.hpp"

#include <string>
#include <vector>

using llama::plan;

namespace {

struct reference {
  std::string name;
  llama::sizes model;
  std::size_t sequences;
};

/// As in make_reference.py.
std::vector<reference> references() {
  return {{"llama_grouped", {2, 24, 4, 2, 29, 9, 37, false}, 3},
          {"llama_tied", {3, 16, 2, 1, 21, 7, 41, true}, 2},
          {"llama_one_layer", {1, 30, 3, 3, 17, 5, 23, false}, 4}};
}

}  // namespace

TEST_CASE("loss, logits and gradients are those of PyTorch, under each placement") {
  for (const reference& r : references()) {
    for (const plan p : {plan::save, plan::offload, plan::mixed, plan::remat}) {
      INFO("placement " << to_string(p));
      llama::training_options o;
      o.model = r.model;
      o.placement = p;
      o.batch = r.sequences;
      training_tests::compare_with_reference(o, r.name, llama::format_of(r.model));
    }
  }
}

TEST_CASE("a checkpoint of transformers, read and written again, has the same tensors") {
  for (const reference& r : references()) training_tests::compare_checkpoints(r.name, llama::format_of(r.model));
}
