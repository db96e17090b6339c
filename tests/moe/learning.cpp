// The model learns, its loads become even, and a step counts for the published arithmetic.
#include "catch.hpp"
#include "parameters.hpp"
#include "runs.hpp"
#include "tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

using moe::plan;

namespace {

/// DeepSeek-V3, arXiv 2412.19437, 4.2.
moe::sizes deepseek_v3() {
  moe::sizes s;
  s.layers = 61;
  s.dense_layers = 3;
  s.hidden = 7168;
  s.heads = 128;
  s.q_rank = 1536;
  s.kv_rank = 512;
  s.rope = 64;
  s.nope = 128;
  s.value = 128;
  s.dense_ffn = 18432;
  s.experts = 256;
  s.top_k = 8;
  s.expert_ffn = 2048;
  s.groups = 8;
  s.top_groups = 4;
  s.sequence = 4096;
  s.vocabulary = 129280;
  return s;
}

}  // namespace

TEST_CASE("a step of DeepSeek-V3 counts for the published TFLOP") {
  CHECK(moe::step_flops(deepseek_v3(), 8 * 4096) / 1e12 == Approx(8207).margin(0.5));
  CHECK(moe::step_flops(deepseek_v3(), 2 * 4096) / 1e12 == Approx(2052).margin(0.5));
}

TEST_CASE("DeepSeek-V3 has 671.03 billion parameters") {
  double count = 0;
  for (const examples::parameter& p : moe::list_parameters(deepseek_v3())) {
    if (p.kind != examples::parameter_kind::bias) count += static_cast<double>(p.size());
  }
  CHECK(count / 1e9 == Approx(671.03).margin(0.005));
}

TEST_CASE("the placement of the published run puts 145.113 GiB on the host") {
  const moe::sizes s = deepseek_v3();
  constexpr std::size_t rows = 8 * 4096;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < s.layers; ++i) {
    bytes += moe::bytes_with(plan::deepseek, hostoffload::choice::offload, s, s.is_dense(i), rows, s.most_routed(rows),
                             2, 4);
  }
  CHECK(static_cast<double>(bytes) / 0x1p30 == Approx(145.113).margin(0.0005));
}

TEST_CASE("the loss on the shipped text falls below 2.6 nats in 40 steps") {
  const auto type = GENERATE(examples::element::f32, examples::element::bf16);
  moe::training_options o;
  o.model.layers = 3;
  o.model.sequence = 32;
  o.batch = 8;
  o.optimiser.learning_rate = 3e-3;
  o.type = type;
  o.placement = plan::deepseek;
  const training_tests::result r = training_tests::train(o, 40);
  CHECK(r.losses.front() > 5.5);  // ln 256 and a little, for it knows nothing
  CHECK(r.losses.back() < 2.6);
}

TEST_CASE("each step moves every bias of a router by the balance rate, or leaves it") {
  auto o = moe_tests::small_options();
  o.placement = plan::remat;
  o.balance_rate = 0x1p-6;
  training_tests::fresh_gpu(o);
  {
    const auto run = make_training(o, training_tests::text());
    std::vector<double> before = run->values();
    std::size_t moved = 0;
    for (int step = 0; step < 5; ++step) {
      run->step();
      const std::vector<double> behind = run->values();
      for (const examples::parameter& p : run->list()) {
        if (p.kind != examples::parameter_kind::bias) continue;
        for (std::size_t i = p.offset; i < p.offset + p.size(); ++i) {
          const double change = behind[i] - before[i];
          CHECK((change == 0 || std::abs(change) == 0x1p-6));
          moved += change == 0 ? 0U : 1U;
        }
      }
      before = behind;
    }
    CHECK(moved > 20);  // of 60
    const std::vector<double> gradients = run->gradients();
    for (const examples::parameter& p : run->list()) {
      if (p.kind != examples::parameter_kind::bias) continue;
      for (std::size_t i = p.offset; i < p.offset + p.size(); ++i) CHECK(gradients[i] == 0);
    }
  }
  training_tests::require_no_findings();
  training_tests::require_no_leaks();
}

TEST_CASE("micro batches sum to the gradients of the whole batch") {
  auto o = moe_tests::small_options();
  o.type = examples::element::f64;
  o.placement = plan::mixed;
  std::vector<std::vector<double>> gradients;
  for (const std::size_t micro_batches : {1U, 2U, 3U}) {
    o.micro_batches = micro_batches;
    training_tests::fresh_gpu(o);
    const auto run = make_training(o, training_tests::text());
    run->compute_gradients(0);
    gradients.push_back(run->gradients());
  }
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    REQUIRE(gradients[1][i] == Approx(gradients[0][i]).epsilon(1e-9).margin(1e-12));
    REQUIRE(gradients[2][i] == Approx(gradients[0][i]).epsilon(1e-9).margin(1e-12));
  }
}

TEST_CASE("options that do not fit together are named") {
  const auto message = [](auto change) -> std::string {
    auto o = moe_tests::small_options();
    change(o);
    try {
      const auto run = make_training(o, training_tests::text());
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  training_tests::fresh_gpu(moe_tests::small_options());
  CHECK(message([](auto&) {}).empty());
  CHECK_THAT(message([](auto& o) { o.model.rope = 3; }), has_text("--rope-size 3 is odd"));
  CHECK_THAT(message([](auto& o) { o.model.groups = 4; }), has_text("--experts 6 is not a multiple of --groups 4"));
  CHECK_THAT(message([](auto& o) { o.model.groups = 6; }), has_text("so it needs two"));
  CHECK_THAT(message([](auto& o) { o.model.top_groups = 4; }), has_text("--top-groups 4 is more than --groups 3"));
  CHECK_THAT(message([](auto& o) { o.model.top_k = 5; }), has_text("--top-k 5 is more than"));
  CHECK_THAT(message([](auto& o) { o.model.dense_layers = 4; }), has_text("--dense-layers 4 is more than --layers 3"));
  CHECK_THAT(message([](auto& o) { o.model.capacity_factor = -1; }), has_text("--capacity must be 0"));
  CHECK_THAT(message([](auto& o) { o.type = examples::element::f64; }), has_text("save and mixed only"));
}
