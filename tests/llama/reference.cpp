// Loss, logits and every gradient against those of PyTorch and transformers: tests/llama/reference/make_reference.py
// made the files, and says how.
#include "catch.hpp"
#include "checkpoint.hpp"
#include "common/safetensors.hpp"
#include "runs.hpp"
#include "scratch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

using llama::plan;

namespace {

constexpr std::uint64_t seed = 7;
constexpr std::size_t batch = 3;
constexpr double allowed = 1e-5;

struct reference {
  std::string name;
  llama::sizes model;
  std::size_t sequences;
};

/// As in make_reference.py.
std::vector<reference> references() {
  return {{"grouped", {2, 24, 4, 2, 29, 9, 37, false}, 3},
          {"tied", {3, 16, 2, 1, 21, 7, 41, true}, 2},
          {"one_layer", {1, 30, 3, 3, 17, 5, 23, false}, 4}};
}

std::string file(const reference& r, const std::string& kind) {
  return std::string(LLAMA_TEST_DATA) + "/llama_" + r.name + kind + ".safetensors";
}

const examples::stored_tensor& tensor(const examples::safetensors_file& expected, const std::string& name) {
  const examples::stored_tensor* const t = expected.find(name);
  INFO(expected.path() << ": " << name);
  REQUIRE(t != nullptr);
  return *t;
}

std::vector<std::int32_t> integers(examples::safetensors_file& expected, const std::string& name) {
  const std::string bytes = expected.bytes(tensor(expected, name));
  std::vector<std::int32_t> values(bytes.size() / sizeof(std::int32_t));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// max|a - b| / max|b|, b being the reference.
double error_of(std::span<const double> a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - static_cast<double>(b[i])));
    largest = std::max(largest, static_cast<double>(std::abs(b[i])));
  }
  REQUIRE(largest > 0);
  return difference / largest;
}

void compare(const reference& r, plan placement) {
  examples::safetensors_file expected(file(r, ".expected"));
  const scratch_file text(expected.bytes(tensor(expected, "tokens")));
  const auto tokens = llama::token_stream::from_text(text.path());

  llama::training_options o;
  o.model = r.model;
  o.type = llama::element::f32;
  o.placement = placement;
  o.batch = r.sequences;
  o.seed = seed;
  o.start = std::make_shared<const std::vector<double>>(llama::load_checkpoint(file(r, ""), r.model));

  std::vector<std::int32_t> inputs(r.sequences * r.model.sequence);
  std::vector<std::int32_t> targets(inputs.size());
  tokens.fill(seed, batch, r.model.sequence, inputs, targets);
  REQUIRE(inputs == integers(expected, "inputs"));
  REQUIRE(targets == integers(expected, "targets"));

  llama_tests::fresh_gpu(o);
  {
    const auto run = llama::make_training(o, tokens);
    const double loss = run->loss(batch);
    CHECK(std::abs(loss - static_cast<double>(expected.floats(tensor(expected, "loss")).at(0))) < allowed);
    CHECK(error_of(run->logits(), expected.floats(tensor(expected, "logits"))) < allowed);
    CHECK(run->compute_gradients(batch) == loss);
    const std::vector<double> gradients = run->gradients();
    std::size_t compared = 0;
    for (const llama::parameter& p : run->list()) {
      const std::string name = "gradient." + llama::hugging_face_name(p);
      INFO(r.name << ", " << to_string(placement) << ": " << name);
      const auto of_this = std::span(gradients).subspan(p.offset, p.size());
      CHECK(error_of(of_this, expected.floats(tensor(expected, name))) < allowed);
      ++compared;
    }
    CHECK(compared + 5 == expected.tensors().size());  // tokens, inputs, targets, loss, logits
  }
  llama_tests::require_no_findings();
  llama_tests::require_no_leaks();
}

}  // namespace

TEST_CASE("loss, logits and gradients are those of PyTorch, under each placement") {
  for (const reference& r : references()) {
    for (const plan p : {plan::save, plan::offload, plan::mixed, plan::remat}) compare(r, p);
  }
}

TEST_CASE("a checkpoint of transformers, read and written again, has the same tensors") {
  for (const reference& r : references()) {
    examples::safetensors_file theirs(file(r, ""));
    const scratch_file written(llama::checkpoint(r.model, llama::load_checkpoint(theirs.path(), r.model), false));
    examples::safetensors_file ours(written.path());
    REQUIRE(ours.tensors().size() == theirs.tensors().size());
    for (const examples::stored_tensor& t : theirs.tensors()) {
      INFO(r.name << ": " << t.name);
      const examples::stored_tensor& same = tensor(ours, t.name);
      CHECK(same.type == t.type);
      CHECK(same.shape == t.shape);
      CHECK(ours.bytes(same) == theirs.bytes(t));
    }
  }
}
