// Placement, window and overlap change no bit of the losses or the parameters, over 200 steps. Each run is compared
// with `save` at the same element type, batch and number of micro batches.
#include "catch.hpp"
#include "common.hpp"
#include "runs.hpp"

#include <hostoffload/errors.hpp>

#include <map>
#include <string>
#include <utility>

using llama::element;
using llama::plan;
using llama_tests::result;

namespace {

constexpr std::size_t steps = 200;

const result& reference(llama::training_options o) {
  static std::map<std::pair<element, std::size_t>, result> known;
  o.placement = plan::save;
  o.window = hostoffload::unlimited;
  const auto [at, is_new] = known.try_emplace({o.type, o.micro_batches});
  if (is_new) at->second = llama_tests::train(o, steps);
  return at->second;
}

void require_same_bits(const llama::training_options& o) {
  INFO("type " << to_string(o.type) << ", placement " << to_string(o.placement) << ", micro batches " << o.micro_batches
               << ", window " << o.window << ", seed " << o.seed);
  const result& expected = reference(o);
  const result got = llama_tests::train(o, steps);
  REQUIRE(llama_tests::first_difference(got.losses, expected.losses) == steps);
  REQUIRE(llama_tests::first_difference(got.parameters, expected.parameters) == expected.parameters.size());
}

std::size_t least_window(llama::training_options o) {
  o.window = hostoffload::unlimited;
  return llama_tests::train(o, 3).least_window_bytes;
}

}  // namespace

TEST_CASE("the reference learns, and its parameters are finite") {
  const result& r = reference(llama_tests::small_options());
  CHECK(r.losses.front() > 5);
  CHECK(r.losses.back() < 3.8);
  for (const double value : r.parameters) REQUIRE(std::isfinite(value));
}

TEST_CASE("the same run twice gives the same bits") {
  const auto type = GENERATE(element::f32, element::bf16);
  auto o = llama_tests::small_options();
  o.type = type;
  o.placement = plan::save;
  require_same_bits(o);
}

TEST_CASE("the comparison sees other bits: another seed, and sums in another order") {
  auto o = llama_tests::small_options();
  o.placement = plan::save;
  const result expected = reference(o);
  ++o.seed;
  const result other_seed = llama_tests::train(o, 3);
  CHECK(llama_tests::first_difference({other_seed.losses.begin(), other_seed.losses.end()},
                                      {expected.losses.begin(), expected.losses.begin() + 3}) == 0);
  --o.seed;
  o.micro_batches = 2;
  CHECK(llama_tests::first_difference(reference(o).parameters, expected.parameters) < expected.parameters.size());
}

TEST_CASE("what is put away is gone: it comes back from the host or is computed again") {
  auto o = llama_tests::small_options();
  o.placement = plan::offload;
  o.window = least_window(o);
  const result offloaded = llama_tests::train(o, 4);
  // All layers but the last, whose tensors need not have left when the backward pass begins.
  CHECK(offloaded.bytes_in >= (o.model.layers - 1) * llama::offloaded_bytes_per_layer(o));
  CHECK(offloaded.recomputed == 0);

  o.placement = plan::remat;
  o.window = hostoffload::unlimited;
  const result recomputed = llama_tests::train(o, 4);
  CHECK(recomputed.bytes_in == 0);
  CHECK(recomputed.recomputed > 0);

  o.placement = plan::save;
  const result saved = llama_tests::train(o, 4);
  CHECK(saved.bytes_in == 0);
  CHECK(saved.recomputed == 0);
}

TEST_CASE("every placement gives the bits of save") {
  const auto type = GENERATE(element::f32, element::bf16);
  for (const plan p : llama::all_plans) {
    auto o = llama_tests::small_options();
    o.type = type;
    o.placement = p;
    require_same_bits(o);
  }
}

TEST_CASE("every window gives the bits of save") {
  const auto p = GENERATE(plan::offload, plan::offload_naive, plan::mixed);
  auto o = llama_tests::small_options();
  o.placement = p;
  const std::size_t least = least_window(o);
  REQUIRE(least > 0);
  const std::size_t layer = llama::offloaded_bytes_per_layer(o);
  for (const std::size_t window :
       {least, least + 256, layer, 3 * layer / 2, 2 * layer, 4 * layer, hostoffload::unlimited}) {
    if (window < least) continue;
    o.window = window;
    require_same_bits(o);
  }
}

TEST_CASE("below the least window there is an error that states it") {
  auto o = llama_tests::small_options();
  o.placement = plan::offload;
  const std::size_t least = least_window(o);
  o.window = least - 256;
  llama_tests::fresh_gpu(o);
  std::size_t needed = 0;
  {
    const auto run = llama::make_training(o, llama_tests::text());
    try {
      run->step();
    } catch (const hostoffload::window_error& error) {
      needed = error.needed();
    }
  }
  CHECK(needed > o.window);
  CHECK(needed <= least);
  llama_tests::require_no_findings();
  llama_tests::require_no_leaks();
}

TEST_CASE("every number of micro batches gives the bits of save with as many") {
  const std::size_t micro_batches = GENERATE(1U, 2U, 3U);
  for (const plan p : {plan::offload, plan::remat, plan::mixed}) {
    auto o = llama_tests::small_options();
    o.micro_batches = micro_batches;
    o.placement = p;
    require_same_bits(o);
  }
}

TEST_CASE("30 combinations drawn at random give the bits of save") {
  constexpr std::uint64_t seed = 20240520;
  llama::random numbers(seed);
  for (int i = 0; i < 30; ++i) {
    auto o = llama_tests::small_options();
    o.type = numbers.next() % 2 == 0 ? element::f32 : element::bf16;
    o.placement = llama::all_plans.at(numbers.next() % llama::all_plans.size());
    o.micro_batches = 1 + numbers.next() % 3;
    const std::size_t least = least_window(o);
    o.window = numbers.next() % 5 == 0 ? hostoffload::unlimited : least + numbers.next() % (3 * least + 1);
    INFO("combination " << i << " of seed " << seed);
    require_same_bits(o);
  }
}
