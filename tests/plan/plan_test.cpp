// Plans: times by hand, offsets that never collide, and the best there is where all possibilities can be tried.

#include "catch.hpp"
#include "steps.hpp"

#include <hostoffload/schedule/plan_step.hpp>

#include <functional>
#include <limits>
#include <numeric>

using ho::detail::link_way;

namespace {

/// A is made, then B; B is used, then A; between them nothing of theirs: six seconds.
ho::recorded_step two_tensors() {
  return {.segment_s = std::vector<double>(6, 1.0),
          .lives = {life("a", second, {{0, 1}, {5, 6}}), life("b", second, {{1, 2}, {3, 4}})},
          .out = unit_link(),
          .in = unit_link()};
}

void check_sound(const ho::recorded_step& recorded, const ho::step_plan& plan) {
  const ho::detail::prepared_step step(recorded);
  ho::detail::plan_follower follower(step, plan);
  CHECK(ho::detail::run_timeline(step, follower) == plan.step_s);
  const auto& stays = follower.stays();
  std::size_t top = 0;
  std::size_t collisions = 0;
  for (std::size_t i = 0; i < stays.size(); ++i) {
    top = std::max(top, stays[i].offset + stays[i].bytes);
    collisions += stays[i].offset % ho::detail::slot_alignment == 0 ? 0U : 1U;
    for (std::size_t j = 0; j < i; ++j) {
      const bool in_time = stays[i].begin < stays[j].end && stays[j].begin < stays[i].end;
      const bool in_space =
          stays[i].offset < stays[j].offset + stays[j].bytes && stays[j].offset < stays[i].offset + stays[i].bytes;
      collisions += in_time && in_space ? 1U : 0U;
    }
  }
  CHECK(collisions == 0);
  CHECK(top == plan.window_bytes);
  CHECK(plan.alive_bytes <= plan.window_bytes);
  CHECK(plan.step_s >= plan.compute_s * (1 - 1e-12));
}

}  // namespace

TEST_CASE("in a window for two, A leaves and comes back while B stays, and nothing is exposed") {
  const auto plan = ho::plan_step(two_tensors(), 2 * second);
  REQUIRE(plan);
  CHECK(plan->step_s == Approx(6));
  CHECK(plan->compute_s == Approx(6));
  CHECK(plan->window_bytes == 2 * second);
  CHECK(plan->lives[0].copied);
  CHECK(plan->lives[0].in_at == 2 * 4 + 1);  // behind point 4 there is just the second that it takes
  CHECK(!plan->lives[1].copied);
  check_sound(two_tensors(), *plan);
}

TEST_CASE("in a window for one, B waits until A has left: a second is exposed") {
  const auto plan = ho::plan_step(two_tensors(), second);
  REQUIRE(plan);
  CHECK(plan->step_s == Approx(7));
  CHECK(plan->window_bytes == second);
  CHECK(plan->lives[0].copied);
  CHECK(plan->lives[0].offset == plan->lives[1].offset);
  check_sound(two_tensors(), *plan);
}

TEST_CASE("a window smaller than a tensor has no plan") { CHECK(!ho::plan_step(two_tensors(), second - 256)); }

TEST_CASE("the smallest window for a time is one in which nothing is exposed") {
  const ho::step_plan plan = ho::plan_least_window(two_tensors());
  CHECK(plan.step_s == Approx(6));
  CHECK(plan.window_bytes == 2 * second);
  const ho::step_plan slower = ho::plan_least_window(two_tensors(), 7.0 / 6 + 0.01);
  CHECK(slower.window_bytes == second);
}

TEST_CASE("no step that copies everything is shorter than compute, or the first tensor and all copies out, or all in") {
  ho::recorded_step step = two_tensors();
  const auto bound = [&] { return ho::detail::least_step_s(ho::detail::prepared_step(step)); };
  CHECK(bound() == Approx(6));
  step.out.rate = second / 4.0;
  CHECK(bound() == Approx(1 + 8));
  step.out.rate = second;
  step.in.rate = second / 4.0;
  CHECK(bound() == Approx(8 + 1));
  step.in.latency_s = 0.25;
  CHECK(bound() == Approx(8.5 + 1));
}

TEST_CASE("a copy takes longer to start where nothing ran in its direction right before") {
  ho::recorded_step step = two_tensors();
  step.out.latency_s = 1;
  step.out.idle_s = 0.5;
  ho::detail::link_pair link(step);
  const auto copy_s = [&](double after_s) {
    if (after_s > 0) link.advance(after_s);
    link.start(link_way::out, 7, second);
    double sum = 0;
    while (!link.take_finished(link_way::out)) {
      const double passes = link.next();
      sum += passes;
      link.advance(passes);
    }
    return sum;
  };
  CHECK(copy_s(0) == Approx(2.5));
  CHECK(copy_s(0) == Approx(2));
  CHECK(copy_s(0.25) == Approx(2.5));
}

TEST_CASE("two directions slow one another while both carry data") {
  ho::recorded_step step = two_tensors();
  step.out.rate_while_both = second / 2.0;
  step.in.rate_while_both = second / 4.0;
  step.in.latency_s = 1;
  ho::detail::link_pair link(step);
  link.start(link_way::out, 7, 2 * second);
  link.start(link_way::in, 9, second);
  std::vector<std::pair<double, std::uint32_t>> ended;
  double now = 0;
  while (link.next() < ho::detail::never) {
    const double passes = link.next();
    now += passes;
    link.advance(passes);
    for (const link_way w : {link_way::out, link_way::in}) {
      if (const auto life = link.take_finished(w)) ended.emplace_back(now, *life);
    }
  }
  // Out carries a second's worth alone, the other at half speed until 3; in has carried 2/4 by then.
  REQUIRE(ended.size() == 2);
  CHECK(ended[0].first == Approx(3));
  CHECK(ended[0].second == 7);
  CHECK(ended[1].first == Approx(3.5));
  CHECK(ended[1].second == 9);
}

TEST_CASE("records that contradict themselves are refused, with the life and what is wrong") {
  const auto refused = [](const std::function<void(ho::recorded_step&)>& change, const std::string& text) {
    ho::recorded_step step = two_tensors();
    change(step);
    CHECK_THROWS_WITH(ho::plan_step(step, second), has_text(text));
  };
  refused([](auto& s) { s.lives[1].uses[1].end = 7; }, "life 1 (b[0]) has use 1 from point 3 to 7");
  refused([](auto& s) { s.lives[0].uses[1].begin = 0; }, "life 0 (a[0]) has use 1");
  refused([](auto& s) { s.lives[0].uses.clear(); }, "life 0 (a[0]) has no uses");
  refused([](auto& s) { s.lives[0].bytes = 0; }, "life 0 (a[0]) has no bytes");
  refused([](auto& s) { s.segment_s[2] = std::numeric_limits<double>::quiet_NaN(); }, "segment 2 has no time");
  refused([](auto& s) { s.segment_s[0] = 1e300; }, "segment 0 has no time");
  refused([](auto& s) { s.out.rate = 0; }, "link out needs rates of at least 1 byte per second");
  refused([](auto& s) { s.in.latency_s = -1; }, "link in needs rates of at least 1 byte per second");
  refused([](auto& s) { s.wait_latency_s = -1; }, "a wait needs a latency of at least 0");
  refused([](auto& s) { s.lives[1].bytes = ~std::size_t{0}; }, "life 1 (b[0]) has more than 1152921504606846976 bytes");
  refused([](auto& s) { s.lives[0].bytes = s.lives[1].bytes = std::size_t{1} << 60U; },
          "the lives have more than 1152921504606846976 bytes together");
}

TEST_CASE("two tensors that meet between points of the same time have bytes of their own") {
  ho::recorded_step step{.segment_s = {1, 0, 1}, .lives = {}, .out = unit_link(), .in = unit_link()};
  step.lives = {life("a", second, {{0, 2}}), life("b", second, {{1, 3}})};
  CHECK(!ho::plan_step(step, 2 * second - 256));
  const auto plan = ho::plan_step(step, 2 * second);
  REQUIRE(plan);
  check_sound(step, *plan);
  CHECK(plan->window_bytes == 2 * second);
  CHECK(plan->step_s == Approx(2));
}

TEST_CASE("tensors that are saved or rematerialised are not planned for") {
  ho::recorded_step step = two_tensors();
  step.lives[0].placed = ho::choice::save;
  const ho::step_plan plan = ho::plan_least_window(step);
  CHECK(!plan.lives[0].planned);
  CHECK(plan.lives[1].planned);
  CHECK(plan.window_bytes == second);
}

TEST_CASE("what the compute stream waited for comes before what it does by the latency of a wait") {
  // When A has left, B takes its place; T leaves behind A, in a tenth of a second.
  ho::recorded_step recorded{.segment_s = std::vector<double>(6, 1.0),
                             .lives = {life("a", second, {{0, 1}, {5, 6}}), life("t", second / 10, {{0, 1}, {5, 6}}),
                                       life("b", 2 * second, {{1, 2}, {3, 4}})},
                             .out = unit_link(),
                             .in = unit_link()};
  ho::step_plan plan;
  plan.lives = {
      {.planned = true, .copied = true, .out_at = 2, .in_at = 9},
      {.planned = true, .copied = true, .out_at = 2, .in_at = 9, .offset = 2 * second, .offset_back = 2 * second},
      {.planned = true}};
  plan.out_order = plan.in_order = {0, 1};
  plan.slot_order = {0, 1, 2, 0, 1};
  const auto seen = [&] {
    const ho::detail::prepared_step step(recorded);
    ho::detail::plan_follower follower(step, plan);
    const double step_s = ho::detail::run_timeline(step, follower);
    return std::pair{step_s, follower.alive_bytes()};
  };
  CHECK(seen().first == Approx(6 + 1 + 0.1));  // B for A, and at the end A's use for T, which comes in behind A
  CHECK(seen().second == 2 * second + second / 10);
  recorded.wait_latency_s = 0.2;
  CHECK(seen().first == Approx(6 + 1.2 + 0.3));
  CHECK(seen().second == 2 * second);
}

TEST_CASE("a place that is reserved is taken only when nothing else is wished for or free") {
  ho::detail::slab_places slab(1024, 1024, ho::detail::place_by::offset);
  const std::vector<ho::detail::slab_places::occupied> reserved{{0, 256, 0}, {128, 512, 0}};
  CHECK(slab.take(256, 1, 256, reserved) == 512U);
  CHECK(slab.take(256, 1, 768, reserved) == 768U);
  CHECK(!slab.take(256, 1, 0, reserved));
  CHECK(slab.take(256, 1, 256) == 256U);
  slab.give_back(512);
  CHECK(slab.take(256, 1, ho::detail::slab_places::nowhere, reserved) == 512U);
  CHECK(slab.peak() == 768);
}

TEST_CASE("stays that nothing can shorten have places, and know whom they meet") {
  const ho::recorded_step recorded = two_tensors();
  const ho::detail::prepared_step step(recorded);
  const ho::detail::least_stays least(step);  // A from 0 to 1 and 5 to 6, B from 1 to 4: a gap between points 2 and 3
  CHECK(least.bytes() == second);
  REQUIRE(least.size() == 4);
  for (std::size_t i = 0; i < least.size(); ++i) CHECK(least.others(i).empty());
  CHECK(least[least.of(0) + 1].begin == 5);
  CHECK(least[least.of(1)].end == 2);
}

TEST_CASE("where tensors that must be there together just fit, the step is hardly longer than with slots anywhere") {
  for (const std::uint64_t seed : {24U, 83U, 187U}) {
    INFO("seed " << seed);
    const ho::recorded_step recorded = drawn_step(seed, 10, 5, 3);
    const ho::detail::prepared_step step(recorded);
    const ho::detail::copy_wishes wishes(step);
    auto wished = wishes.first({}, ho::detail::out_first::used_last);
    wishes.walk_back(wished, std::vector<bool>(wished.size(), true));
    const std::size_t window = ho::detail::least_stays(step).bytes();
    ho::detail::copy_chooser anywhere(step, wished, wishes.in_order(),
                                      ho::detail::slab_places(2 * window, window, ho::detail::place_by::neighbour),
                                      false, ho::detail::place_reservations(nullptr));
    const double anywhere_s = ho::detail::run_timeline(step, anywhere);
    const auto plan = ho::plan_step(recorded, window);
    REQUIRE(plan);
    check_sound(recorded, *plan);
    CHECK(plan->window_bytes <= window);
    CHECK(plan->step_s <= 1.001 * anywhere_s);
  }
}

TEST_CASE("drawn steps: the least window reaches the bound, and slots never collide") {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    INFO("seed " << seed);
    const ho::recorded_step step = drawn_step(seed, 10, 5, 3);
    const ho::step_plan plan = ho::plan_least_window(step, 1.01);
    CHECK(plan.step_s <= 1.01 * plan.bound_s);
    check_sound(step, plan);
    CHECK(ho::plan_least_window(step, 1.01) == plan);
    const auto same = ho::plan_step(step, plan.window_bytes);
    REQUIRE(same);
    CHECK(same->window_bytes <= plan.window_bytes);
    check_sound(step, *same);
  }
}

TEST_CASE("packing: the largest sum is that of all moments, and the slab is not much larger") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 draw(seed);
    std::vector<ho::detail::slab_stay> stays;
    for (int i = 0; i < 60; ++i) {
      const auto begin = static_cast<double>(draw() % 100);
      stays.push_back(
          {.begin = begin, .end = begin + 1 + static_cast<double>(draw() % 20), .bytes = 256 * (1 + draw() % 64)});
    }
    std::size_t largest = 0;
    for (int t = 0; t < 120; ++t) {
      std::size_t sum = 0;
      for (const auto& s : stays) sum += s.begin <= t && t < s.end ? s.bytes : 0;
      largest = std::max(largest, sum);
    }
    ho::detail::slab_packing packing(stays);
    CHECK(packing.largest_sum() == largest);
    const std::size_t size = packing.pack();
    CHECK(size >= largest);
    CHECK(static_cast<double>(size) <= 1.03 * static_cast<double>(largest));
  }
}

TEST_CASE("tiny steps: no choice of copies and of when they start needs a smaller window") {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const ho::recorded_step recorded = drawn_step(seed, 2, 2, 1);
    const ho::detail::prepared_step step(recorded);
    const double bound_s = ho::detail::least_step_s(step);
    if (recorded.lives.size() > 3 || bound_s > step.compute_s()) continue;
    std::size_t least = std::numeric_limits<std::size_t>::max();
    std::vector<std::uint32_t> lives(recorded.lives.size());
    std::iota(lives.begin(), lives.end(), 0U);
    ho::step_plan plan;
    plan.lives.resize(lives.size());
    const std::uint32_t phases = 2 * step.last_point();
    const auto evaluate = [&] {
      ho::detail::plan_follower follower(step, plan);
      if (ho::detail::run_timeline(step, follower) > 1.01 * bound_s) return;
      least = std::min(least, ho::detail::slab_packing(follower.stays()).largest_sum());
    };
    const std::function<void(std::size_t)> try_starts = [&](std::size_t copy) {
      if (copy == plan.in_order.size()) return evaluate();
      const std::uint32_t l = plan.in_order[copy];
      for (std::uint32_t at = copy == 0 ? 0 : plan.lives[plan.in_order[copy - 1]].in_at; at <= phases; ++at) {
        plan.lives[l].in_at = at;
        try_starts(copy + 1);
      }
    };
    for (unsigned set = 0; set < (1U << lives.size()); ++set) {
      std::vector<std::uint32_t> copied;
      std::size_t offset = 0;
      plan.slot_order.clear();
      for (const std::uint32_t l : lives) {
        plan.lives[l] = {.planned = true, .copied = (set >> l & 1U) != 0};
        if (plan.lives[l].copied) copied.push_back(l);
        for (int stay = 0; stay < (plan.lives[l].copied ? 2 : 1); ++stay) {  // each stay in bytes of its own
          (stay == 0 ? plan.lives[l].offset : plan.lives[l].offset_back) = offset;
          offset += ho::detail::slot_size(recorded.lives[l].bytes);
          plan.slot_order.push_back(l);
        }
      }
      std::vector<std::uint32_t> outs = copied;
      do {
        plan.out_order = outs;
        std::vector<std::uint32_t> ins = copied;
        do {
          plan.in_order = ins;
          try_starts(0);
        } while (std::next_permutation(ins.begin(), ins.end()));
      } while (std::next_permutation(outs.begin(), outs.end()));
    }
    INFO("seed " << seed);
    const ho::step_plan found = ho::plan_least_window(recorded, 1.01);
    CHECK(static_cast<double>(found.window_bytes) <= 1.1 * static_cast<double>(least));
    ++compared;
  }
  CHECK(compared >= 8);
}
