// Steps that are enqueued from the list of an earlier one's calls: the bits of save in every order of execution, no
// wait too few or too many, and the general way from any point at which a step asks something else, or a call fails.

#include "catch.hpp"
#include "failing_calls.hpp"
#include "program.hpp"

#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/faults.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vg = hostoffload::virtual_gpu;

namespace {

constexpr int steps_before = 20;  // more than it takes until steps are repeated

/// Every second seed's steps are planned.
proof::shape repeated_shape(std::uint64_t seed) {
  proof::shape s = proof::shape_of(seed);
  s.side_by_side = false;
  s.planned = seed % 2 == 0;
  if (s.planned) s.window = 2 + static_cast<double>(seed % 3);
  s.sample_every = s.planned ? 1000 : 0;
  return s;
}

void warm_up(proof::program& p) {
  for (int step = 1; step <= steps_before; ++step) {
    p.step(static_cast<float>(step));
    static_cast<void>(p.values());
  }
}

/// Three steps with nothing in between.
std::vector<float> three_steps(proof::program& p, std::size_t left_out_of_second) {
  p.step(20);
  p.step(21, left_out_of_second);
  p.step(22);
  return p.values();
}

std::vector<float> reference(const proof::shape& s, std::size_t left_out_of_second = 0) {
  vg::reset(vg::gb200());
  proof::program p(s, true);
  p.step(1);
  static_cast<void>(p.values());
  return three_steps(p, left_out_of_second);
}

bool gates(const vg::wait_record& w) { return (w.stream - 1) % 4 == 3 && (w.event_stream - 1) % 4 == 1; }

}  // namespace

TEST_CASE("repeated steps give the bits of save in every order of execution", "[repeats]") {
  std::size_t programs = 0;
  std::size_t repeated = 0;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    const proof::shape s = repeated_shape(seed);
    INFO(to_string(s));
    proof::prepare(s);
    const std::vector<float> expected = reference(s);
    for (const std::uint64_t order : {std::uint64_t{0}, seed}) {
      vg::reset(vg::gb200());
      proof::program p(s, false);
      warm_up(p);
      INFO("order " << order);
      vg::execution_order(order);
      CHECK(three_steps(p, 0) == expected);
      programs += s.schedulers;
      repeated += p.steps_repeated();
      for (const vg::finding& f : vg::findings()) FAIL_CHECK(f.message);
    }
  }
  CHECK(10 * repeated > 9 * programs);  // but for those that are planned anew every few steps
}

TEST_CASE("a repeated step that leaves a use out goes on in the general way from there", "[repeats]") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    proof::shape s = repeated_shape(seed);
    s.micro_batches = 1;  // what is not ended by a last use cannot begin anew
    proof::prepare(s);
    const std::size_t uses = 4 * s.layers * s.schedulers;
    for (std::size_t use = 1; use <= uses; use += 1 + uses / 12) {
      INFO(to_string(s) << "; without use " << use);
      const std::vector<float> expected = reference(s, use);
      vg::reset(vg::gb200());
      proof::program p(s, false);
      warm_up(p);
      vg::execution_order(use % 3 == 0 ? seed : 0);
      CHECK(three_steps(p, use) == expected);
      // Again, some steps later: what is remembered of the step before is another one's.
      const std::size_t other = 1 + (use + uses / 2) % uses;
      for (std::size_t step = 0; step < use % 5; ++step) p.step(1);
      static_cast<void>(p.values());
      vg::execution_order(0);
      const std::vector<float> again = three_steps(p, other);
      for (int step = 1; step <= steps_before; ++step) p.step(static_cast<float>(step));
      static_cast<void>(p.values());
      CHECK(p.steps_repeated() == s.schedulers);
      for (const vg::finding& f : vg::findings()) FAIL_CHECK(f.message);
      CHECK(again == reference(s, other));
    }
  }
}

TEST_CASE("no wait of a repeated step is redundant, and each dropped one is found or only paces", "[repeats]") {
  std::size_t found = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const proof::shape s = repeated_shape(seed);
    if (s.layers > 3) continue;
    proof::prepare(s);
    for (std::uint64_t n = 1;; ++n) {
      vg::reset(vg::gb200());
      proof::program p(s, false);
      warm_up(p);
      p.step(20);  // what the host knows by waiting would imply waits behind it
      vg::ignore_wait(n);
      p.step(21);
      p.step(22);
      vg::wait_record dropped;
      for (const vg::wait_record& w : vg::waits()) {
        if (w.ignored) dropped = w;
        INFO(to_string(s) << "; call " << w.call);
        REQUIRE((w.ignored || !w.implied || gates(w)));
      }
      if (!dropped.ignored) break;  // there are fewer
      static_cast<void>(p.values());
      CHECK(p.steps_repeated() == s.schedulers);
      INFO(to_string(s) << "; wait " << n);
      if (vg::findings().empty()) {
        REQUIRE((dropped.implied_later || gates(dropped)));
      } else {
        ++found;
      }
    }
  }
  CHECK(found > 100);
}

TEST_CASE("each CUDA call of repeated steps fails once: a typed error, and the next step is right", "[repeats]") {
  std::size_t failed = 0;
  for (const std::uint64_t seed : {2U, 3U, 5U, 8U, 12U}) {
    proof::shape s = repeated_shape(seed);
    s.layers = std::min<std::size_t>(s.layers, 2);
    proof::prepare(s);
    const std::vector<float> expected = reference(s);
    failed += proof::fail_each_call(
        s, expected,
        [&](proof::program& p) {
          warm_up(p);
          REQUIRE(p.steps_repeated() == s.schedulers);
        },
        [](proof::program& p) { p.step(8); }, [](proof::program& p) { return three_steps(p, 0); });
  }
  CHECK(failed > 300);
}
