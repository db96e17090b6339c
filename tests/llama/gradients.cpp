// The gradients of all parameters against central differences of the loss, in double.
#include "catch.hpp"
#include "runs.hpp"

#include <algorithm>
#include <cmath>

using llama::plan;

namespace {

/// max|a - b| / max|b| over up to 24 elements of one parameter.
double worst_relative_error(llama::training& run, const llama::parameter& p, const std::vector<double>& values,
                            const std::vector<double>& gradients, std::size_t batch) {
  constexpr double h = 1e-5;
  double difference = 0;
  double largest = 0;
  std::vector<double> moved = values;
  for (std::size_t i = 0; i < p.size(); i += std::max<std::size_t>(1, p.size() / 24)) {
    const std::size_t at = p.offset + i;
    moved[at] = values[at] + h;
    run.set_values(moved);
    const double above = run.loss(batch);
    moved[at] = values[at] - h;
    run.set_values(moved);
    const double below = run.loss(batch);
    moved[at] = values[at];
    const double expected = (above - below) / (2 * h);
    difference = std::max(difference, std::abs(gradients[at] - expected));
    largest = std::max(largest, std::abs(expected));
  }
  return difference / largest;
}

}  // namespace

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
      CHECK(worst_relative_error(*run, each, values, gradients, batch) < 1e-6);
    }
  }
  llama_tests::require_no_findings();
  llama_tests::require_no_leaks();
}
