// A record of the Llama trainer under one placement tells its step under the others: as the trainer itself steps.

#include <planner/plan/evaluate.hpp>
#include <planner/plan/record_problem.hpp>

#include <training.hpp>

#include <hostoffload/schedule/measure_link.hpp>

#include "catch.hpp"
#include "training/runs.hpp"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

namespace ho = hostoffload;
using ho::choice;
using llama::plan;

constexpr std::array plans{plan::save, plan::offload, plan::remat, plan::mixed};

llama::training_options options(plan placement, std::size_t micro_batches) {
  llama::training_options o;
  o.model.layers = 4;
  o.batch = 4;
  o.micro_batches = micro_batches;
  o.placement = placement;
  o.window = 2 * llama::offloaded_bytes_per_layer(o);
  if (o.window == 0) o.window = ho::unlimited;
  return o;
}

/// Seconds of the third step, on the device: forward, backward and update.
double step_s(const llama::training_options& o) {
  training_tests::fresh_gpu(o);
  const auto run = llama::make_training(o, training_tests::text());
  for (int i = 0; i < 3; ++i) run->step();
  const ho::step_report r = run->report();
  REQUIRE(r.sampled);
  return r.step_s;
}

ho::recorded_step record(llama::training_options o) {
  training_tests::fresh_gpu(o);
  o.record = true;
  std::optional<ho::recorded_step> seen;
  {
    const auto run = llama::make_training(o, training_tests::text());
    for (int i = 0; i < 5; ++i) run->step();
    seen = run->record();
  }
  REQUIRE(seen);
  if (seen->out.rate == 0) {
    const ho::measured_link link = ho::measure_link(65536);
    seen->out = link.out;
    seen->in = link.in;
  }
  training_tests::require_no_findings();
  return *seen;
}

std::vector<choice> placements_of(const planner::step_program& p, plan as) {
  std::vector<choice> placed;
  for (const planner::program_tensor& t : p.tensors) {
    for (const choice c : {choice::save, choice::offload, choice::remat}) {
      const std::string names = ' ' + llama::names_with(as, c) + ' ';
      if (names.find(' ' + t.name + ' ') != std::string::npos) placed.push_back(c);
    }
  }
  REQUIRE(placed.size() == p.tensors.size());
  return placed;
}

}  // namespace

TEST_CASE("the Llama's step under each placement, as predicted from its record under each other, within 2 percent") {
  const std::size_t micro_batches = GENERATE(1U, 2U);
  std::map<plan, double> real;
  for (const plan p : plans) real[p] = step_s(options(p, micro_batches));
  CHECK(real[plan::remat] > 1.1 * real[plan::save]);  // there is something to predict

  for (const plan from : plans) {
    const ho::recorded_step r = record(options(from, micro_batches));
    CHECK(r.lives.size() == 40 * micro_batches);
    const planner::step_program program = planner::program_of(r);
    for (const plan to : plans) {
      INFO("from " << llama::to_string(from) << " to " << llama::to_string(to));
      const std::size_t window = options(to, micro_batches).window;
      const planner::stepped predicted =
          planner::step_with(program, placements_of(program, to), {std::size_t{1} << 30U, std::size_t{1} << 30U},
                             planner::machine_with(r.out, r.in), {.window = window == ho::unlimited ? 0 : window});
      REQUIRE(predicted.fits);
      CHECK(predicted.step_s == Approx(real[to]).epsilon(0.02));
    }
  }
}
