// The model learns: what it is for.
#include "catch.hpp"
#include "runs.hpp"

#include <hostoffload/cuda/error.hpp>
#include <hostoffload/virtual_gpu/control.hpp>

#include <stdexcept>

using llama::element;
using llama::plan;

TEST_CASE("the loss on the shipped text falls below 2.4 nats in 40 steps") {
  const auto type = GENERATE(element::f32, element::bf16);
  llama::training_options o;
  o.model.layers = 2;
  o.model.ffn = 256;
  o.model.sequence = 32;
  o.batch = 8;
  o.optimiser.learning_rate = 3e-3;
  o.type = type;
  o.placement = plan::offload;
  const llama_tests::result r = llama_tests::train(o, 40);
  CHECK(r.losses.front() > 5.5);  // ln 256 and a little, for it knows nothing
  CHECK(r.losses.back() < 2.4);
}

TEST_CASE("bf16 follows float") {
  auto o = llama_tests::small_options();
  o.placement = plan::save;
  const llama_tests::result exact = llama_tests::train(o, 50);
  o.type = element::bf16;
  const llama_tests::result rounded = llama_tests::train(o, 50);
  CHECK(rounded.losses.back() == Approx(exact.losses.back()).epsilon(0.03));
}

TEST_CASE("micro batches sum to the gradients of the whole batch") {
  auto o = llama_tests::small_options();
  o.type = element::f64;
  o.placement = plan::mixed;
  std::vector<std::vector<double>> gradients;
  for (const std::size_t micro_batches : {1U, 2U, 3U}) {
    o.micro_batches = micro_batches;
    llama_tests::fresh_gpu(o);
    const auto run = llama::make_training(o, llama_tests::text());
    run->compute_gradients(0);
    gradients.push_back(run->gradients());
  }
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    REQUIRE(gradients[1][i] == Approx(gradients[0][i]).epsilon(1e-9).margin(1e-12));
    REQUIRE(gradients[2][i] == Approx(gradients[0][i]).epsilon(1e-9).margin(1e-12));
  }
}

TEST_CASE("a forward pass alone changes no parameter, and training goes on behind it") {
  auto o = llama_tests::small_options();
  o.placement = plan::offload;
  llama_tests::fresh_gpu(o);
  {
    const auto run = llama::make_training(o, llama_tests::text());
    const std::vector<double> before = run->values();
    const double loss = run->loss(0);
    CHECK(llama_tests::first_difference(run->values(), before) == before.size());
    CHECK(run->step() == loss);
    const double later = run->loss(0);
    CHECK(later < loss);
    CHECK(run->loss(0) == later);
  }
  llama_tests::require_no_findings();
  llama_tests::require_no_leaks();
}

TEST_CASE("a machine that is too small is an out_of_memory error, and nothing leaks") {
  auto o = llama_tests::small_options();
  o.placement = plan::save;
  llama_tests::fresh_gpu(o);
  {
    const auto run = llama::make_training(o, llama_tests::text());
    run->step();
  }
  auto small = hostoffload::virtual_gpu::current_machine();
  small.device_memory.value = static_cast<double>(hostoffload::virtual_gpu::memory_usage().device_peak - 256);
  hostoffload::virtual_gpu::reset(small);
  const auto train = [&] {
    const auto run = llama::make_training(o, llama_tests::text());
    run->step();
  };
  CHECK_THROWS_AS(train(), hostoffload::out_of_memory);
  llama_tests::require_no_findings();
  llama_tests::require_no_leaks();
}

TEST_CASE("options that do not fit together are named") {
  const auto message = [](const llama::training_options& o) -> std::string {
    try {
      const auto run = llama::make_training(o, llama_tests::text());
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  auto o = llama_tests::small_options();
  llama_tests::fresh_gpu(o);
  o.micro_batches = 4;
  CHECK(message(o) == "--batch 6 is not a multiple of --micro-batches 4");
  o = llama_tests::small_options();
  o.model.hidden = 18;
  CHECK(message(o) == "--hidden 18 is not a multiple of --heads 4");
  o.model.hidden = 12;
  CHECK(message(o) == "the head size 3 (--hidden / --heads) is odd: rotary positions need pairs");
  o = llama_tests::small_options();
  o.type = element::f64;
  o.placement = plan::offload;
  CHECK(message(o) == "--type double is built for --placement save and mixed only");
}
