// The gradients of all parameters against central differences of the loss, in double.
#include "catch.hpp"
#include "runs.hpp"

#include <string>

using moe::plan;

TEST_CASE("gradients of every parameter agree with central differences") {
  const auto p = GENERATE(plan::save, plan::mixed);
  const double capacity = GENERATE(0.0, 0.75);  // with the latter, pairs are dropped
  moe::training_options o = moe_tests::small_options();
  o.model.capacity_factor = capacity;
  o.type = examples::element::f64;
  o.placement = p;
  o.batch = 2;
  o.micro_batches = p == plan::save ? 1 : 2;
  training_tests::fresh_gpu(o);
  {
    const auto run = make_training(o, training_tests::text());
    constexpr std::size_t batch = 3;
    const double loss = run->compute_gradients(batch);
    const std::vector<double> gradients = run->gradients();
    const std::vector<double> values = run->values();
    CHECK(run->loss(batch) == loss);
    std::size_t compared = 0;
    for (const examples::parameter& each : run->list()) {
      if (each.kind == examples::parameter_kind::bias) continue;
      INFO(each.name << ", placement " << to_string(p) << ", capacity factor " << capacity);
      CHECK(training_tests::worst_relative_error(*run, each, values, gradients, batch) < 1e-6);
      ++compared;
    }
    CHECK(compared == 3 + 9 * 3 + 3 + 2 * (1 + 3 * (1 + 6)));
  }
  training_tests::require_no_findings();
  training_tests::require_no_leaks();
}
