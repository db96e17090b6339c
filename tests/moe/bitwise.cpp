// Placement, window, overlap and the room for what was routed change no bit of the losses or the parameters, over 200
// steps in which the experts get other numbers of tokens each time. Each run is compared with `save` at the same
// element type, capacity and number of micro batches.
#include "catch.hpp"
#include "runs.hpp"

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

using examples::element;
using moe::plan;
using training_tests::first_difference;
using training_tests::least_window;
using training_tests::result;

namespace {

constexpr std::size_t steps = 200;

const result& reference(moe::training_options o) {
  static std::map<std::tuple<element, std::size_t, double>, result> known;
  o.placement = plan::save;
  o.window = hostoffload::unlimited;
  o.model.room_for_routed = true;
  const auto [at, is_new] = known.try_emplace({o.type, o.micro_batches, o.model.capacity_factor});
  if (is_new) at->second = training_tests::train(o, steps);
  return at->second;
}

void require_same_bits(const moe::training_options& o) {
  INFO("type " << to_string(o.type) << ", placement " << to_string(o.placement) << ", micro batches " << o.micro_batches
               << ", window " << o.window << ", capacity factor " << o.model.capacity_factor << ", room for "
               << (o.model.room_for_routed ? "routed" : "capacity") << ", seed " << o.seed);
  const result& expected = reference(o);
  const result got = training_tests::train(o, steps);
  REQUIRE(first_difference(got.losses, expected.losses) == steps);
  REQUIRE(first_difference(got.parameters, expected.parameters) == expected.parameters.size());
}

/// Bytes of gate, up and act that left the device in a step.
struct stowed {
  std::size_t gate, up, act;
};
stowed stowed_in(examples::training& run) {
  stowed bytes{};
  for (const auto& t : run.report().tensors) {
    if (t.name == "gate") bytes.gate = t.bytes_out;
    if (t.name == "up") bytes.up = t.bytes_out;
    if (t.name == "act") bytes.act = t.bytes_out;
  }
  return bytes;
}

}  // namespace

TEST_CASE("the reference learns, and its parameters are finite") {
  const result& r = reference(moe_tests::small_options());
  CHECK(r.losses.front() > 5);
  CHECK(r.losses.back() < 3.8);
  for (const double value : r.parameters) REQUIRE(std::isfinite(value));
}

TEST_CASE("every placement gives the bits of save") {
  const auto type = GENERATE(element::f32, element::bf16);
  for (const plan p : moe::all_plans) {
    auto o = moe_tests::small_options();
    o.type = type;
    o.placement = p;
    require_same_bits(o);
  }
}

TEST_CASE("every window gives the bits of save") {
  const auto p = GENERATE(plan::offload, plan::deepseek);
  auto o = moe_tests::small_options();
  o.placement = p;
  const std::size_t least = least_window(o);
  REQUIRE(least > 0);
  for (const std::size_t window : {least, 2 * least}) {
    o.window = window;
    require_same_bits(o);
  }
}

TEST_CASE("room by capacity or for what was routed, and micro batches, give the bits of save") {
  for (const bool routed : {false, true}) {
    auto o = moe_tests::small_options();
    o.model.capacity_factor = 0.8;
    o.model.room_for_routed = routed;
    o.micro_batches = 2;
    o.placement = routed ? plan::offload : plan::deepseek;
    require_same_bits(o);
  }
}

TEST_CASE("what was routed is stowed, and no more, whatever the room") {
  std::vector<std::vector<std::size_t>> bytes;
  for (const bool routed : {false, true}) {
    auto o = moe_tests::small_options();
    o.placement = plan::offload;
    o.model.capacity_factor = 0.9;
    o.model.room_for_routed = routed;
    o.optimiser.learning_rate = 1e-2;
    training_tests::fresh_gpu(o);
    auto& of_steps = bytes.emplace_back();
    {
      const auto run = make_training(o, training_tests::text());
      const std::size_t rows = o.batch * o.model.sequence;
      const std::size_t fixed = (rows * o.model.dense_ffn + 2 * rows * o.model.shared_ffn()) * sizeof(float);
      const std::size_t of_pair = o.model.expert_ffn * sizeof(float);
      for (int i = 0; i < 20; ++i) {
        run->step();
        const stowed s = stowed_in(*run);
        CHECK(s.gate == s.up);
        CHECK(s.gate == s.act);
        REQUIRE(s.gate > fixed);
        CHECK((s.gate - fixed) % of_pair == 0);
        CHECK((s.gate - fixed) / of_pair <= 2 * o.model.most_routed(rows));
        CHECK(run->report().host_waits == 2);  // one for each layer of experts
        of_steps.push_back(s.gate);
      }
    }
    training_tests::require_no_findings();
    training_tests::require_no_leaks();
  }
  CHECK(bytes[0] == bytes[1]);
  CHECK(std::set<std::size_t>(bytes[0].begin(), bytes[0].end()).size() > 3);  // other numbers in each step
}

TEST_CASE("room for what was routed needs a smaller window than room by capacity") {
  auto o = moe_tests::small_options();
  o.placement = plan::deepseek;
  o.model.dense_layers = 0;
  o.model.expert_ffn = 64;
  o.model.capacity_factor = 0.9;
  const std::size_t routed = least_window(o);
  o.model.room_for_routed = false;
  const std::size_t by_capacity = least_window(o);
  CHECK(routed < by_capacity);
}

TEST_CASE("what is put away is gone: it comes back from the host or is computed again") {
  auto o = moe_tests::small_options();
  o.placement = plan::deepseek;
  o.window = least_window(o);
  const result both = training_tests::train(o, 4);
  CHECK(both.bytes_in > 0);
  CHECK(both.recomputed > 0);
  o.placement = plan::save;
  o.window = hostoffload::unlimited;
  const result saved = training_tests::train(o, 4);
  CHECK(saved.bytes_out == 0);
  CHECK(saved.recomputed == 0);
}
