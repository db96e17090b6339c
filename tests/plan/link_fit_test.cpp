// Rates of the link from the times of copies.

#include "catch.hpp"

#include <hostoffload/schedule/link_fit.hpp>
#include <hostoffload/schedule/step_timeline.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace ho = hostoffload;
using ho::detail::fit_link;
using ho::detail::link_way;
using ho::detail::timed_copy;

namespace {

constexpr std::array ways{link_way::out, link_way::in};

ho::recorded_step slower_together() {
  return {.out = {.rate = 50e9, .rate_while_both = 40e9, .latency_s = 3e-6},
          .in = {.rate = 80e9, .rate_while_both = 40e9, .latency_s = 2e-6}};
}

ho::recorded_step slow_to_start(double idle_s) {
  ho::recorded_step link = slower_together();
  link.out.idle_s = link.in.idle_s = idle_s;
  return link;
}

/// Copies of each direction, every third behind a pause; the first in `start_s[way]`.
std::array<std::vector<timed_copy>, 2> run(const ho::recorded_step& link, std::uint64_t seed, int count,
                                           std::array<double, 2> start_s) {
  std::mt19937_64 draw(seed);
  ho::detail::link_pair pair(link);
  std::array<std::vector<timed_copy>, 2> done;
  std::array<double, 2> starts = start_s;
  double now = 0;
  while (true) {
    double next = pair.next();
    for (std::size_t w = 0; w < 2; ++w) {
      if (pair.busy(ways[w]) || done[w].size() == static_cast<std::size_t>(count)) continue;
      if (starts[w] <= now) {
        const std::size_t bytes = 1'000'000 + draw() % 50'000'000;
        pair.start(ways[w], 0, bytes);
        done[w].push_back({now, 0, bytes, done[w].empty() || starts[w] > done[w].back().end});
        next = pair.next();
      } else {
        next = std::min(next, starts[w] - now);
      }
    }
    if (next == ho::detail::never) break;
    next = std::min(next, pair.next());
    now += next;
    pair.advance(next);
    for (std::size_t w = 0; w < 2; ++w) {
      if (!pair.take_finished(ways[w])) continue;
      done[w].back().end = now;
      starts[w] = now + (draw() % 3 == 0 ? static_cast<double>(1 + draw() % 1000) * 1e-6 : 0);
    }
  }
  return done;
}

}  // namespace

TEST_CASE(
    "copies that ran alone and beside others give latency and both rates, also where an idle link starts slowly") {
  for (const double idle_s : {0.0, 5e-6, 40e-6}) {
    const ho::recorded_step link = slow_to_start(idle_s);
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      INFO("idle " << idle_s << ", seed " << seed);
      const auto done = run(link, seed, 60, {0, 0});
      for (const std::size_t w : {0U, 1U}) {
        const auto fit = fit_link(done[w], done[1 - w]);
        REQUIRE(fit);
        const ho::link_direction& is = w == 0 ? link.out : link.in;
        CHECK(fit->rate == Approx(is.rate).epsilon(1e-4));
        CHECK(fit->rate_while_both == Approx(is.rate_while_both).epsilon(1e-4));
        CHECK(fit->latency_s == Approx(is.latency_s).margin(1e-7));
        CHECK(fit->idle_s == Approx(idle_s).margin(1e-7));
      }
    }
  }
}

TEST_CASE("where both directions are as fast together as alone, that is what the copies tell") {
  ho::recorded_step link = slow_to_start(5e-6);
  link.out.rate_while_both = link.out.rate;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    auto done = run(link, seed, 60, {0, 0});
    std::mt19937_64 draw(seed);  // events are as exact as this
    for (timed_copy& c : done[0]) c.end += (static_cast<double>(draw() % 1000) - 500) * 1e-10;
    const auto fit = fit_link(done[0], done[1]);
    REQUIRE(fit);
    CHECK(fit->rate == Approx(50e9).epsilon(1e-4));
    CHECK(fit->rate_while_both == Approx(50e9).epsilon(1e-4));
    CHECK(fit->latency_s == Approx(3e-6).margin(1e-7));
  }
}

TEST_CASE("a few copies that met for a moment are enough") {
  const ho::recorded_step link = slower_together();
  const auto alone = run(link, 1, 40, {0, 1});
  auto out = alone[0];
  auto in = alone[1];
  // A copy out of 40 MB from 2 s on, and a copy in of 8 MB in the midst of it.
  const double begin = 2;
  const double met_s = 8e6 / link.in.rate_while_both;
  out.push_back({begin, begin + link.out.latency_s + met_s + (40e6 - met_s * link.out.rate_while_both) / link.out.rate,
                 40'000'000});
  in.push_back({begin + 1e-4, begin + 1e-4 + link.in.latency_s + met_s, 8'000'000});
  CHECK(fit_link(out, in)->rate_while_both == Approx(link.out.rate_while_both).epsilon(0.02));
  CHECK(fit_link(in, out)->rate_while_both == Approx(link.in.rate_while_both).epsilon(0.02));
}

TEST_CASE("what the copies do not tell is 0") {
  const auto alone = run(slower_together(), 1, 40, {0, 1});
  const auto fit = fit_link(alone[0], alone[1]);
  REQUIRE(fit);
  CHECK(fit->rate == Approx(50e9).epsilon(0.001));
  CHECK(fit->rate_while_both == 0);
  CHECK(fit->latency_s == Approx(3e-6).epsilon(0.01));

  const auto one_size = fit_link({{0, 1e-3, 50'000'000}, {1, 1 + 1e-3, 50'000'000}}, {});
  REQUIRE(one_size);
  CHECK(one_size->rate == Approx(50e9));
  CHECK(one_size->latency_s == 0);
  const auto no_longer = fit_link({{0, 3e-6, 1000}, {1, 1 + 2.9e-6, 2000}}, {});  // though larger
  REQUIRE(no_longer);
  CHECK(no_longer->rate > 1000 / 3e-6);
  CHECK(no_longer->rate < 2000 / 2.9e-6);
  CHECK(no_longer->latency_s == 0);
  CHECK_FALSE(fit_link({}, alone[0]));
}

TEST_CASE("times that vary by a hundredth give rates within a twentieth") {
  const ho::recorded_step link = slower_together();
  auto done = run(link, 7, 200, {0, 0});
  std::mt19937_64 draw(7);
  for (timed_copy& c : done[0]) c.end += (c.end - c.begin) * (static_cast<double>(draw() % 1000) / 1000 - 0.5) / 50;
  const auto fit = fit_link(done[0], done[1]);
  REQUIRE(fit);
  CHECK(fit->rate == Approx(link.out.rate).epsilon(0.05));
  CHECK(fit->rate_while_both == Approx(link.out.rate_while_both).epsilon(0.05));
}
