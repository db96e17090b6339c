// The placement that plan wrote as a header, compiled into the Llama trainer: its step is the predicted one.

#include HOSTOFFLOAD_TEST_PLACEMENT

#include <model.hpp>
#include <training.hpp>

#include "catch.hpp"
#include "common/trainer.hpp"
#include "training/runs.hpp"

#include <nlohmann/json.hpp>

#include <fstream>

namespace {

using planned = planned_placement<llama::name>;

/// That the record is of: see CMakeLists.txt.
llama::training_options options() {
  llama::training_options o;
  o.model.layers = 4;
  o.batch = 4;
  return o;
}

}  // namespace

TEST_CASE("the header of plan compiled into the trainer: fits, and steps as predicted, within 1 percent") {
  std::ifstream file(RECORDED_TEST_PLAN);
  const nlohmann::json plan = nlohmann::json::parse(file);
  const nlohmann::json& best = plan.at("rows").at(4);
  REQUIRE(best.at("placement") == "best");
  REQUIRE(best.at("fits"));
  CHECK_FALSE(plan.at("rows").at(0).at("fits"));  // save of all
  CHECK(best.at("step_s") >= plan.at("bound_step_s"));
  CHECK(best.at("device_bytes") <= plan.at("device_budget_bytes"));
  CHECK(best.at("host_bytes") <= plan.at("host_budget_bytes"));

  llama::training_options o = options();
  o.window = best.at("window_bytes");
  o.host_capacity = plan.at("host_budget_bytes");
  training_tests::fresh_gpu(o);
  examples::trainer<llama::model<llama::bf16, planned>> run(o, training_tests::text());
  for (int i = 0; i < 3; ++i) run.step();
  const hostoffload::step_report r = run.report();
  REQUIRE(r.sampled);
  CHECK(r.step_s == Approx(best.at("step_s").get<double>()).epsilon(0.01));
  CHECK(r.host_bytes == best.at("host_bytes"));
  CHECK(r.device_bytes == best.at("device_bytes"));
  training_tests::require_no_findings();
}
