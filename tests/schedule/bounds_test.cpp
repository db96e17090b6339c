// The bounds against cases worked out by hand and against every schedule of tiny steps.

#include "bounds.hpp"
#include "brute_force.hpp"
#include "catch.hpp"
#include "tiny.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

using tiny::unit;

namespace {

Approx about(double value) { return Approx(value).epsilon(1e-9).margin(1e-9); }

double window_at_bound(const schedules::workload& w) {
  return schedules::least_window(w, schedules::bound_step(w).step_s());
}

}  // namespace

TEST_CASE("the step's bound is the largest of compute, what goes out and what comes in") {
  // Made at 2 s and 4 s, used from 6 s and 8 s on; 10 s of compute.
  const auto bound = [](double out, double in) {
    return schedules::bound_step(tiny::step({2, 2, 2, 2, 2}, {{4, 1, {3}}, {6, 0, {4}}}, out, in));
  };
  const auto fast = bound(10, 10);
  CHECK(fast.compute_s == about(10));
  CHECK(fast.out_s == about(2 + 10.0 / 10));
  CHECK(fast.in_s == about(10.0 / 10 + 2));  // the last arrival is for the segment at 8 s
  CHECK(fast.step_s() == about(10));
  CHECK(fast.copies_can_be_hidden());
  CHECK(bound(1, 10).step_s() == about(12));
  CHECK_FALSE(bound(1, 10).copies_can_be_hidden());
  CHECK(bound(10, 0.5).step_s() == about(22));
}

TEST_CASE("least window: one tensor that has time to leave and return") {
  const auto w = tiny::step({1, 8, 1}, {{2, 0, {2}}});
  CHECK(window_at_bound(w) == about(2 * unit));
  CHECK(brute_force::search(w).least_window(0) == about(2 * unit));
}

TEST_CASE("least window: what has no time to leave is kept") {
  // The first leaves from 1 s to 5 s and is needed at 8 s: it returns from 4 s on at the latest, so it is kept.
  const auto w = tiny::step({1, 1, 6, 1}, {{4, 0, {3}}, {3, 1, {2}}});
  CHECK(window_at_bound(w) == about(7 * unit));
  CHECK(brute_force::search(w).least_window(0) == about(7 * unit));
}

TEST_CASE("least window: a backlog of copies out, and one of copies in") {
  // Four tensors of 2 units are made at 1, 2, 3, 4 s and leave at 1 unit a second; they are used from 20 s on.
  const auto out = tiny::step({1, 1, 1, 1, 16, 1, 1, 1, 1}, {{2, 0, {8}}, {2, 1, {7}}, {2, 2, {6}}, {2, 3, {5}}}, 1, 4);
  CHECK(window_at_bound(out) == about(6 * unit));
  CHECK(brute_force::search(out).least_window(0) == about(6 * unit));
  const auto in = tiny::step({1, 1, 1, 1, 16, 1, 1, 1, 1}, {{2, 0, {8}}, {2, 1, {7}}, {2, 2, {6}}, {2, 3, {5}}}, 4, 1);
  CHECK(window_at_bound(in) == about(6 * unit));
  CHECK(brute_force::search(in).least_window(0) == about(6 * unit));
}

TEST_CASE("a step in a smaller window is slower, and none is possible below the largest access") {
  const auto w = tiny::step({1, 1, 1, 1, 2, 1, 1, 1, 1}, {{2, 0, {8}}, {2, 1, {7}}, {2, 2, {6}}, {2, 3, {5}}});
  const double compute = 10;
  double before = std::numeric_limits<double>::infinity();
  for (std::size_t units = 1; units <= 8; ++units) {
    const double least = schedules::least_step(w, static_cast<double>(units * unit));
    INFO(units << " units");
    CHECK(least <= before);
    CHECK(least >= compute);
    CHECK(std::isinf(least) == (units < 2));
    before = least;
  }
  CHECK(before == about(compute));
  CHECK(schedules::least_step(w, 2.0 * unit) > compute + 3);
}

TEST_CASE("tensors leave and return whole: room for a little less than two takes as long as one of them") {
  // 6 units are made until 1 s and used from 11 s on, 4 units from 1 s on and from 10 s on: in 9 units the first leaves
  // before the second is made, and returns when that is over.
  const auto w = tiny::step({1, 1, 8, 1, 1}, {{6, 0, {4}}, {4, 1, {3}}}, 1, 1);
  CHECK(schedules::least_step(w, 9.0 * unit) == about(12 + 6 + 6));
  CHECK(schedules::least_step(w, 10.0 * unit) == about(12));
  CHECK(schedules::least_window(w, 12 + 11) >= 9.0 * unit);
}

TEST_CASE("no schedule of tiny random steps beats the bounds, and most reach them") {
  const unsigned seed = 20260731;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t low, std::size_t high) { return low + random() % (high - low + 1); };
  std::size_t reached = 0, cases = 0;
  for (int n = 0; n < 70; ++n) {
    const std::size_t segments = pick(5, 7);
    std::vector<double> seconds;
    for (std::size_t i = 0; i < segments; ++i) seconds.push_back(static_cast<double>(pick(1, 4)));
    std::vector<tiny::item> items;
    for (std::size_t i = 0; i < 3; ++i) {
      tiny::item t{2 * pick(1, 4), pick(0, segments - 3), {}};
      const std::size_t first = pick(t.made + 1, segments - 1);
      t.used = {first};
      if (first + 1 < segments && pick(0, 1) == 1) t.used.push_back(pick(first + 1, segments - 1));
      items.push_back(t);
    }
    const auto w = tiny::step(seconds, items, static_cast<double>(pick(1, 2)), static_cast<double>(pick(1, 2)));
    brute_force::search all(w);
    const double compute = schedules::segment_starts(w).back();
    for (const std::size_t slack : {std::size_t{0}, std::size_t{2}}) {
      const double best = all.least_window(slack);
      const double step_s = compute + static_cast<double>(slack);
      const double bound = schedules::least_window(w, step_s);
      INFO("case " << n << ", slack " << slack);
      CHECK(bound <= best + 1e-6);
      CHECK(schedules::least_step(w, best) <= step_s + 1e-9);
      ++cases;
      reached += bound >= best - unit / 2.0 ? 1U : 0U;
    }
    if (const auto delay = all.least_delay_with_all_moved(6)) {
      INFO("case " << n);
      CHECK(schedules::bound_step(w).step_s() <= compute + static_cast<double>(*delay) + 1e-9);
    }
  }
  INFO(reached << " of " << cases << " reached");
  CHECK(10 * reached > 9 * cases);
}
