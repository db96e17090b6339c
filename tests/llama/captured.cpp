// From the third step on, each step is a launch of one captured graph: input, step number and learning rate change, and
// the bits are those of eager steps.

#include "catch.hpp"
#include "common.hpp"
#include "runs.hpp"

#include "common/adamw.hpp"

#include <cstddef>
#include <map>

using llama::element;
using llama::plan;
using llama_tests::result;

namespace {

constexpr std::size_t launches = 50;
constexpr std::size_t steps = 2 + launches;

llama::training_options options_for(plan placement, element type) {
  auto o = llama_tests::small_options();
  o.type = type;
  o.placement = placement;
  o.optimiser.warm_up = 10;
  o.optimiser.decay_until = 40;
  return o;
}

/// Eager, with everything saved.
const result& reference(element type) {
  static std::map<element, result> known;
  const auto [at, is_new] = known.try_emplace(type);
  if (is_new) at->second = llama_tests::train(options_for(plan::save, type), steps);
  return at->second;
}

void require_same_bits(llama::training_options o, std::uint64_t order = 0) {
  INFO("type " << to_string(o.type) << ", placement " << to_string(o.placement) << ", window " << o.window << ", order "
               << order);
  o.graph = true;
  const result& expected = reference(o.type);
  const result got = llama_tests::train(o, steps, order);
  CHECK(got.replays == launches);
  REQUIRE(llama_tests::first_difference(got.losses, expected.losses) == steps);
  REQUIRE(llama_tests::first_difference(got.parameters, expected.parameters) == expected.parameters.size());
}

std::size_t least_window(llama::training_options o) {
  o.window = hostoffload::unlimited;
  return llama_tests::train(o, 3).least_window_bytes;
}

}  // namespace

TEST_CASE("fifty launches of a captured step give the bits of eager steps, for every placement") {
  const auto type = GENERATE(element::f32, element::bf16);
  for (const plan p : llama::all_plans) require_same_bits(options_for(p, type));
}

TEST_CASE("fifty launches give the bits of eager steps in the least window, and in other orders of execution") {
  for (const plan p : {plan::offload, plan::mixed}) {
    auto o = options_for(p, element::f32);
    o.window = least_window(o);
    for (const std::uint64_t order : {0U, 1U, 2U}) require_same_bits(o, order);
  }
}

TEST_CASE("fifty launches would show a learning rate or a step number that stands still") {
  const result& expected = reference(element::f32);
  auto o = options_for(plan::save, element::f32);
  o.optimiser.warm_up = 0;
  CHECK(llama_tests::first_difference(llama_tests::train(o, steps).losses, expected.losses) < 3);
  o = options_for(plan::save, element::f32);
  o.optimiser.decay_until = 0;
  CHECK(llama_tests::first_difference(llama_tests::train(o, steps).losses, expected.losses) < 14);
}

TEST_CASE("the learning rate rises, falls along a cosine, and stays") {
  examples::adamw_options o;
  o.learning_rate = 2;
  CHECK(examples::learning_rate(o, 1) == 2);
  CHECK(examples::learning_rate(o, 1000) == 2);
  o.warm_up = 4;
  CHECK(examples::learning_rate(o, 1) == 0.5);
  CHECK(examples::learning_rate(o, 4) == 2);
  CHECK(examples::learning_rate(o, 5) == 2);
  o.decay_until = 12;
  CHECK(examples::learning_rate(o, 4) == 2);
  CHECK(examples::learning_rate(o, 8) == Approx(1.1));  // half way from 2 to 0.2
  CHECK(examples::learning_rate(o, 12) == Approx(0.2));
  CHECK(examples::learning_rate(o, 100) == Approx(0.2));
}

TEST_CASE("the number of the step and what follows from it lie on the device") {
  llama_tests::fresh_gpu(llama_tests::small_options());
  cudaStream_t stream = nullptr;
  {
    examples::adamw_step step(stream);
    examples::adamw_options o;
    o.warm_up = 4;
    for (int i = 1; i <= 3; ++i) step.advance(o, stream);
    const auto now = step.read(stream);
    CHECK(now.number == 3);
    CHECK(now.rate == Approx(0.75e-3));
    CHECK(now.correct1 == Approx(1 / (1 - 0.9 * 0.9 * 0.9)));
    CHECK(now.correct2 == Approx(1 / (1 - 0.95 * 0.95 * 0.95)));
  }
  llama_tests::require_no_findings();
}
