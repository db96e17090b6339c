// Steps that follow a plan: the bits of save in every order of execution, and no wait too few or too many. The waits
// that gate copies in only pace: without one nothing changes but time, and one may be redundant, where the trainer has
// enqueued nothing since the one before.

#include "catch.hpp"
#include "failing_calls.hpp"
#include "program.hpp"

#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/faults.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vg = hostoffload::virtual_gpu;

namespace {

constexpr int unplanned = 4;  // steps: the third is timed, and the fifth begins with a plan

/// With room for a plan beside the reserve.
proof::shape planned_shape(std::uint64_t seed) {
  proof::shape s = proof::shape_of(seed);
  s.planned = true;
  s.window = 2 + static_cast<double>(seed % 3);
  return s;
}

/// Steps until there is a plan, and a planned one: what the host knows by waiting would imply waits behind it.
void warm_up(proof::program& p) {
  for (int step = 1; step <= unplanned; ++step) {
    p.step(static_cast<float>(step));
    static_cast<void>(p.values());
  }
  p.step(unplanned + 1);
}

/// What the planned step and two more see, with nothing in between.
std::vector<float> two_steps(proof::program& p) {
  for (const float batch : {8.0F, 9.0F}) p.step(batch);
  return p.values();
}

std::vector<float> reference(const proof::shape& s) {
  vg::reset(vg::gb200());
  proof::program p(s, true);
  p.step(unplanned + 1);
  return two_steps(p);
}

/// The fourth stream of a scheduler is that of copies in, the second the compute stream.
bool gates(const vg::wait_record& w) { return (w.stream - 1) % 4 == 3 && (w.event_stream - 1) % 4 == 1; }

}  // namespace

TEST_CASE("planned steps give the bits of save in every order of execution", "[plans]") {
  std::size_t followed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const proof::shape s = planned_shape(seed);
    INFO(to_string(s));
    proof::prepare(s);
    const std::vector<float> expected = reference(s);
    for (const std::uint64_t order : {std::uint64_t{0}, seed}) {
      INFO("order " << order);
      vg::reset(vg::gb200());
      proof::program p(s, false);
      warm_up(p);
      vg::execution_order(order);
      CHECK(two_steps(p) == expected);
      followed += p.plans_followed();
      for (const vg::finding& f : vg::findings()) FAIL_CHECK(f.message);
    }
  }
  CHECK(followed >= 60);
}

TEST_CASE("no wait of a planned step is redundant, and each dropped one is found or only paces", "[plans]") {
  std::size_t found = 0;
  std::size_t pacing = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const proof::shape s = planned_shape(seed);
    if (s.layers > 4) continue;
    proof::prepare(s);
    const std::vector<float> expected = reference(s);
    for (std::uint64_t n = 1;; ++n) {
      vg::reset(vg::gb200());
      proof::program p(s, false);
      warm_up(p);
      vg::ignore_wait(n);
      const std::vector<float> values = two_steps(p);
      vg::wait_record dropped;
      for (const vg::wait_record& w : vg::waits()) {
        if (w.ignored) dropped = w;
        INFO(to_string(s) << "; call " << w.call);
        REQUIRE((w.ignored || !w.implied || gates(w)));
      }
      if (!dropped.ignored) break;  // there are fewer
      INFO(to_string(s) << "; wait " << n);
      if (!vg::findings().empty()) {
        ++found;
        continue;
      }
      REQUIRE((dropped.implied_later || gates(dropped)));
      pacing += dropped.implied_later ? 0 : 1;
      CHECK(values == expected);
    }
  }
  CHECK(found > 100);
  CHECK(pacing > 0);
}

TEST_CASE("each CUDA call of planned steps fails once: a typed error, and the next step is right", "[plans]") {
  std::size_t failed = 0;
  for (const std::uint64_t seed : {3U, 8U, 12U}) {
    proof::shape s = planned_shape(seed);
    s.layers = std::min<std::size_t>(s.layers, 2);
    proof::prepare(s);
    std::vector<float> expected;
    {
      vg::reset(vg::gb200());
      proof::program p(s, true);
      p.step(7);
      expected = p.values();
    }
    failed += proof::fail_each_call(
        s, expected, warm_up,
        [](proof::program& p) {
          p.step(8);
          p.step(9);
        },
        [](proof::program& p) {
          p.step(7);
          return p.values();
        });
  }
  CHECK(failed > 300);
}
