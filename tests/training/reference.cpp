#include "reference.hpp"

#include "catch.hpp"
#include "scratch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

namespace training_tests {
namespace {

constexpr double allowed = 1e-5;

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
  return largest == 0 ? difference : difference / largest;  // 0: of an expert that got no token
}

}  // namespace

std::string reference_file(const std::string& name) { return std::string(HOSTOFFLOAD_TEST_DATA) + "/" + name; }

examples::token_stream reference_text(const std::string& name, std::size_t sequences, std::size_t sequence) {
  examples::safetensors_file expected(reference_file(name + ".expected.safetensors"));
  const scratch_file text(expected.bytes(tensor(expected, "tokens")));
  examples::token_stream tokens = examples::token_stream::from_text(text.path());
  std::vector<std::int32_t> inputs(sequences * sequence);
  std::vector<std::int32_t> targets(inputs.size());
  tokens.fill(reference_seed, reference_batch, sequence, inputs, targets);
  REQUIRE(inputs == integers(expected, "inputs"));
  REQUIRE(targets == integers(expected, "targets"));
  return tokens;
}

void compare_with_reference(examples::training& run, const std::string& name,
                            const examples::checkpoint_format& format) {
  examples::safetensors_file expected(reference_file(name + ".expected.safetensors"));
  const double loss = run.loss(reference_batch);
  CHECK(std::abs(loss - static_cast<double>(expected.floats(tensor(expected, "loss")).at(0))) < allowed);
  CHECK(error_of(run.logits(), expected.floats(tensor(expected, "logits"))) < allowed);
  CHECK(run.compute_gradients(reference_batch) == loss);
  const std::vector<double> gradients = run.gradients();
  std::size_t compared = 0;
  for (const auto& p : format.parameters) {
    if (p.here.kind == examples::parameter_kind::bias) continue;  // no gradient trains it
    const std::string gradient = "gradient." + p.name;
    INFO(name << ": " << gradient);
    const auto of_this = std::span(gradients).subspan(p.here.offset, p.here.size());
    CHECK(error_of(of_this, expected.floats(tensor(expected, gradient))) < allowed);
    ++compared;
  }
  CHECK(compared + 5 == expected.tensors().size());  // tokens, inputs, targets, loss, logits
}

void compare_checkpoints(const std::string& name, const examples::checkpoint_format& format) {
  examples::safetensors_file theirs(reference_file(name + ".safetensors"));
  const scratch_file written(examples::checkpoint(format, examples::load_checkpoint(theirs.path(), format), false));
  examples::safetensors_file ours(written.path());
  REQUIRE(ours.tensors().size() == theirs.tensors().size());
  for (const examples::stored_tensor& t : theirs.tensors()) {
    INFO(name << ": " << t.name);
    const examples::stored_tensor& same = tensor(ours, t.name);
    CHECK(same.type == t.type);
    CHECK(same.shape == t.shape);
    CHECK(ours.bytes(same) == theirs.bytes(t));
  }
}

}  // namespace training_tests
