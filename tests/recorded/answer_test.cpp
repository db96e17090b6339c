// The answer of plan for a record: within the budgets, no worse than the plain placements, no better than the bound.

#include "script.hpp"

#include <planner/plan/answer.hpp>
#include <planner/plan/output.hpp>

#include "catch.hpp"

#include <string>
#include <vector>

namespace {

namespace ho = hostoffload;

constexpr std::size_t slot = 1024;  // of each tensor of a script

/// Layers of x, and of y made of x; the backward pass uses y, then x. A second of work everywhere, two to make a y.
ho::recorded_step layers(std::size_t count, double link_rate) {
  recorded::script t;
  std::vector<std::uint32_t> x, y;
  for (std::size_t i = 0; i < count; ++i) {
    x.push_back(t.begin_making({"x"}, i).front());
    t.work(1);
    t.end_making();
    t.begin(x.back());
    t.end(x.back());
    y.push_back(t.begin_making({"y"}, i).front());
    t.begin(x.back());
    t.work(2);
    t.end(x.back());
    t.end_making();
    t.begin(y.back());
    t.work(1);
    t.end(y.back());
  }
  for (std::size_t i = count; i-- > 0;) {
    for (const auto life : {y[i], x[i]}) {
      t.begin(life);
      t.work(1);
      t.end(life, true);
    }
  }
  ho::recorded_step r = t.end_step();
  r.out = r.in = {.rate = link_rate, .rate_while_both = link_rate, .latency_s = 0};
  return r;
}

planner::record_answer answer(const ho::recorded_step& r, const planner::budgets& within) {
  const planner::step_program program = planner::program_of(r);
  const planner::record_problem p = planner::problem_of(program, within, r.out.rate, r.in.rate);
  return planner::answer_of(program, p, within, planner::machine_with(r.out, r.in), 60);
}

}  // namespace

TEST_CASE("with room for all, all is saved, and the bound is the work") {
  const planner::record_answer a = answer(layers(6, slot), {12 * slot, 0});
  REQUIRE(a.best);
  CHECK(a.best->seen.step_s == Approx(36));
  CHECK(a.least_step_s == Approx(36));
  CHECK(a.best->seen.host_bytes == 0);
}

TEST_CASE("with less room the answer keeps the budgets, and lies between the bound and the plain placements") {
  for (const std::size_t device : {std::size_t{5}, std::size_t{8}, std::size_t{11}}) {
    for (const std::size_t host : {std::size_t{0}, std::size_t{3}, std::size_t{12}}) {
      INFO(device << " slots of device memory, " << host << " of host memory");
      const planner::budgets within{device * slot, host * slot};
      const ho::recorded_step r = layers(6, 0.4 * slot);
      planner::record_answer a;
      try {
        a = answer(r, within);
      } catch (const std::runtime_error& e) {
        CHECK(device == 5);
        CHECK(host < 12);
        CHECK(std::string(e.what()).find("no placement of the step's tensors fits: the nearest of ") == 0);
        continue;
      }
      REQUIRE(a.best);
      const planner::stepped& s = a.best->seen;
      CHECK(s.fits);
      CHECK(s.device_bytes <= within.device);
      CHECK(s.host_bytes <= within.host);
      CHECK(s.step_s >= a.least_step_s * (1 - 1e-6));
      CHECK(a.least_step_s >= 36 * (1 - 1e-6));
      for (const planner::tried_placement& t : a.plain) {
        if (t.seen.fits) CHECK(s.step_s <= t.seen.step_s * (1 + 1e-6));
      }
    }
  }
}

TEST_CASE("whether the best placement's steps follow a plan is told, and without one they are the same") {
  const ho::recorded_step r = layers(6, 0.4 * slot);
  const planner::step_program program = planner::program_of(r);
  for (const bool roomy : {false, true}) {
    INFO((roomy ? "room for a plan and its reserve" : "little more than the least window"));
    const planner::budgets within{(roomy ? 10 : 6) * slot, 12 * slot};
    const planner::record_answer a = answer(r, within);
    REQUIRE(a.best);
    CHECK_FALSE(a.best->seen.planned);
    REQUIRE(a.best_planned.fits);
    CHECK(a.best_planned.planned == roomy);
    if (!roomy) CHECK(a.best_planned.step_s == Approx(a.best->seen.step_s));
    planner::options o;
    o.within = within;
    const planner::record_problem p = planner::problem_of(program, within, r.out.rate, r.in.rate);
    const std::string text = planner::text_of(a, program, p, o, planner::machine_with(r.out, r.in));
    CHECK((text.find("\nbest, .plan = true     no plan is made in this window") == std::string::npos) == roomy);
    const std::string window = ".window = " + std::to_string(a.best->seen.window_bytes) + '\n';
    CHECK(planner::header_of(a, p, o).find(window) != std::string::npos);
  }
}
