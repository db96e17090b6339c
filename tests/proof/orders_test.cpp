// Kernels and copies take effect in random orders that streams and events allow: the same bits, and nothing to report.

#include "catch.hpp"
#include "program.hpp"

#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/faults.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace vg = hostoffload::virtual_gpu;

namespace {

/// 50, or what the environment asks for.
std::uint64_t orders() {
  const char* const asked = std::getenv("HOSTOFFLOAD_ORDERS");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return asked == nullptr ? 50 : std::strtoull(asked, nullptr, 10);
}

std::vector<float> run(const proof::shape& s, bool save_all, std::uint64_t order) {
  vg::reset(vg::gb200());
  proof::program p(s, save_all);
  vg::execution_order(order);
  for (const float batch : {1.0F, 2.0F, 3.0F}) p.step(batch);  // nothing in between: the orders span the steps
  return p.values();
}

}  // namespace

TEST_CASE("generated steps give the bits of save in every order of execution", "[orders]") {
  for (std::uint64_t seed = 1; seed <= orders(); ++seed) {
    const proof::shape s = proof::shape_of(seed);
    INFO(to_string(s));
    proof::prepare(s);
    const std::vector<float> reference = run(s, true, 0);
    for (const std::uint64_t order : {seed, seed + 1'000'000}) {
      INFO("order " << order);
      CHECK(run(s, false, order) == reference);
      for (const vg::finding& f : vg::findings()) FAIL_CHECK(f.message);
    }
  }
}
