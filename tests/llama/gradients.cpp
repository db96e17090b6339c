// The gradients of all parameters against central differences of the loss, in double.
#include "catch.hpp"
#include "runs.hpp"

using llama::plan;

TEST_CASE("gradients of every parameter agree with central differences") {
  const auto p = GENERATE(plan::save, plan::mixed);
  const bool tied = GENERATE(false, true);
  llama::training_options o = llama_tests::small_options();
  o.model.layers = 2;
  o.model.tied = tied;
  o.type = llama::element::f64;
  o.placement = p;
  o.batch = 2;
  o.micro_batches = p == plan::save ? 1 : 2;
  llama_tests::fresh_gpu(o);
  {
    const auto run = llama::make_training(o, llama_tests::text());
    constexpr std::size_t batch = 3;
    const double loss = run->compute_gradients(batch);
    const std::vector<double> gradients = run->gradients();
    const std::vector<double> values = run->values();
    CHECK(run->loss(batch) == loss);
    for (const llama::parameter& each : run->list()) {
      INFO(each.name << ", placement " << to_string(p) << (tied ? ", tied" : ""));
      CHECK(training_tests::worst_relative_error(*run, each, values, gradients, batch) < 1e-6);
    }
  }
  llama_tests::require_no_findings();
  llama_tests::require_no_leaks();
}
