// Training gives the same bits in every order in which streams and events let kernels and copies take effect.
#include "catch.hpp"
#include "runs.hpp"

#include <cstdint>
#include <cstdlib>
#include <map>

using llama::plan;
using llama_tests::result;

namespace {

/// 50, or what the environment asks for.
std::uint64_t orders() {
  const char* const asked = std::getenv("HOSTOFFLOAD_ORDERS");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return asked == nullptr ? 50 : std::strtoull(asked, nullptr, 10);
}

}  // namespace

TEST_CASE("a Llama gives the bits of save in every order of execution", "[orders]") {
  constexpr std::size_t steps = 3;
  auto o = llama_tests::small_options();
  o.batch = 2;
  std::map<std::size_t, result> references;
  for (const std::size_t micro_batches : {1U, 2U}) {
    o.micro_batches = micro_batches;
    o.placement = plan::save;
    o.window = hostoffload::unlimited;
    references[micro_batches] = llama_tests::train(o, steps);
  }
  o.micro_batches = 1;
  o.placement = plan::offload;
  const std::size_t least = llama_tests::train(o, steps).least_window_bytes;
  for (std::uint64_t order = 1; order <= orders(); ++order) {
    o.placement = order % 3 == 0 ? plan::mixed : (order % 3 == 1 ? plan::offload : plan::remat);
    o.micro_batches = 1 + order % 2;
    o.window = least * (1 + order % 4);
    INFO("order " << order << ", placement " << to_string(o.placement) << ", window " << o.window);
    const result got = llama_tests::train(o, steps, order);
    const result& expected = references[o.micro_batches];
    REQUIRE(llama_tests::first_difference(got.losses, expected.losses) == steps);
    REQUIRE(llama_tests::first_difference(got.parameters, expected.parameters) == expected.parameters.size());
  }
}
