// What recomputation costs where inputs have to be made again themselves: by hand.

#include "script.hpp"

#include <planner/bound.hpp>
#include <planner/plan/evaluate.hpp>
#include <planner/plan/record_problem.hpp>

#include <hostoffload/schedule/record_file.hpp>

#include "catch.hpp"

#include <map>
#include <sstream>
#include <string>

namespace {

namespace ho = hostoffload;
using ho::choice;
using recorded::script;

/// s is produced; a is made of it in 2 seconds, b of a and s in 4, c of b and a in 8. The backward pass uses c, then,
/// where `uses_all`, b and a.
ho::recorded_step chain(bool uses_all) {
  script t;
  t.work(1);
  const auto s = t.produce("s");
  const auto c = t.begin_making({"c"}).front();
  const auto b = t.begin_making({"b"}).front();
  const auto a = t.begin_making({"a"}).front();
  t.begin(s);
  t.work(2);
  t.end(s);
  t.end_making();
  t.begin(a);
  t.begin(s);
  t.work(4);
  t.end(s);
  t.end(a);
  t.end_making();
  t.begin(b);
  t.begin(a);
  t.work(8);
  t.end(a);
  t.end(b);
  t.end_making();
  t.begin(c);
  t.work(16);
  t.end(c);
  t.work(1);
  t.begin(c);
  t.work(32);
  t.end(c, true);
  if (uses_all) {
    for (const auto life : {b, a}) {
      t.begin(life);
      t.work(3);
      t.end(life, true);
    }
  }
  t.begin(s);
  t.work(7);
  t.end(s, true);
  ho::recorded_step step = t.end_step();
  std::ostringstream text;
  ho::write_record(text, step);
  std::istringstream in(text.str());
  CHECK(ho::read_record(in, "chain") == step);
  return step;
}

using placements = std::map<std::string, choice>;

planner::stepped step_of(const ho::recorded_step& r, const placements& placed, const planner::stepping& how = {}) {
  const planner::step_program p = planner::program_of(r);
  std::vector<choice> each;
  for (const planner::program_tensor& t : p.tensors) {
    const auto found = placed.find(t.name);
    each.push_back(found == placed.end() ? choice::save : found->second);
  }
  return planner::step_with(p, each, {1U << 30U, 1U << 30U}, planner::machine_with(r.out, r.in), how);
}

}  // namespace

TEST_CASE(
    "a chain of three, all used in the backward pass: what is dropped is made again once, whoever needs it first") {
  const ho::recorded_step r = chain(true);
  const double all = 1 + 2 + 4 + 8 + 16 + 1 + 32 + 3 + 3 + 7;
  CHECK(planner::program_of(r).seconds == all);
  for (unsigned which = 0; which < 8; ++which) {
    placements placed;
    double again = 0;
    for (const auto& [name, bit, seconds] :
         {std::tuple{"a", 1U, 2.0}, std::tuple{"b", 2U, 4.0}, std::tuple{"c", 4U, 8.0}}) {
      if ((which & bit) == 0) continue;
      placed[name] = choice::remat;
      again += seconds;
    }
    INFO("remat " << which);
    CHECK(step_of(r, placed).step_s == Approx(all + again));
  }
}

TEST_CASE("a chain of three, the last alone used in the backward pass: only what it needs is made again") {
  const ho::recorded_step r = chain(false);
  const double all = 1 + 2 + 4 + 8 + 16 + 1 + 32 + 7;
  const auto again = [&](const placements& placed) { return step_of(r, placed).step_s - all; };
  CHECK(again({}) == Approx(0).margin(1e-6));
  CHECK(again({{"b", choice::remat}}) == Approx(0).margin(1e-6));  // nobody needs it again
  CHECK(again({{"a", choice::remat}}) == Approx(2));               // its longest gap is that between b's making and c's
  CHECK(again({{"a", choice::remat}, {"b", choice::remat}}) == Approx(2));
  CHECK(again({{"c", choice::remat}}) == Approx(8));
  CHECK(again({{"c", choice::remat}, {"a", choice::remat}}) == Approx(8 + 2));  // c awaits a itself
  CHECK(again({{"c", choice::remat}, {"b", choice::remat}}) == Approx(8 + 4));
  CHECK(again({{"c", choice::remat}, {"b", choice::remat}, {"a", choice::remat}}) == Approx(8 + 4 + 2));  // a once
}

TEST_CASE("an input on the host is fetched for a recomputation, and its copy is exposed where nothing hides it") {
  ho::recorded_step r = chain(false);
  r.out = r.in = {.rate = 1024, .rate_while_both = 1024, .latency_s = 0};  // a second each
  const double all = 1 + 2 + 4 + 8 + 16 + 1 + 32 + 7;
  const planner::stepped hidden = step_of(r, {{"c", choice::remat}, {"b", choice::offload}});
  CHECK(hidden.fits);
  CHECK(hidden.host_bytes == 1024);
  CHECK(hidden.step_s == Approx(all + 8));
}

TEST_CASE("recomputation that was recorded is left out, and micro batches run each definition once a batch") {
  script t;
  std::vector<std::uint32_t> x(2);
  for (std::uint32_t& life : x) {
    life = t.begin_making({"x", "y"}).front();
    t.work(life == 0 ? 2 : 4);
    t.end_making();
    t.begin(life);
    t.work(1);
    t.end(life);
    t.begin(life);
    t.work(10);
    t.end(life, true);
    t.begin(life + 1);
    t.end(life + 1, true);
  }
  ho::recorded_step r = t.end_step();
  for (std::size_t i = 2; i < 4; ++i) r.lives[i].tensor = r.lives[i - 2].tensor;

  const planner::step_program p = planner::program_of(r);
  REQUIRE(p.tensors.size() == 2);
  REQUIRE(p.definitions.size() == 1);
  CHECK(p.definitions[0].runs == 2);
  CHECK(p.definitions[0].seconds == 3);  // the mean
  CHECK(p.seconds == 2 + 4 + 2 * 11);
  CHECK(step_of(r, {}).step_s == Approx(28));
  CHECK(step_of(r, {{"x", choice::remat}}).step_s == Approx(28 + 2 * 3));

  const planner::record_problem problem = planner::problem_of(p, {4096, 4096}, 1e9, 1e9);
  CHECK(problem.asked.makings.front().seconds == 6);
  CHECK(problem.asked.forward_s == 2);
  CHECK(problem.asked.backward_s == 26);
  CHECK(planner::bound_step(problem.at_peak) == Approx(28));
}

TEST_CASE("what the trainer produces cannot be made again") {
  const planner::step_program p = planner::program_of(chain(true));
  const planner::record_problem problem = planner::problem_of(p, {4096, 4096}, 1e9, 1e9);
  REQUIRE(problem.asked.names.size() == 4);
  CHECK(problem.asked.names[0].text == "s");  // in the order of making
  CHECK(problem.asked.names[1].text == "a");
  CHECK_FALSE(problem.asked.names[0].may.remat);
  CHECK(problem.asked.names[1].may.remat);
  CHECK_THROWS_WITH(step_of(chain(true), {{"s", choice::remat}}), has_text("is placed as remat and nothing says"));
}
