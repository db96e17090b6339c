// What follows from the descriptions without stepping: exact.

#include "arithmetic.hpp"
#include "description_file.hpp"

#include "catch.hpp"

#include <cstddef>
#include <string>

namespace {

using replay::tensor;

constexpr double gib = 1024.0 * 1024 * 1024;

replay::description shipped(const std::string& name) {
  return replay::load_description(std::string(HOSTOFFLOAD_REPLAY_MODELS) + "/" + name + ".json").of;
}

double in_gib(std::size_t bytes) { return static_cast<double>(bytes) / gib; }

}  // namespace

TEST_CASE("parameters of the shipped models") {
  const auto billions = [](const std::string& name) {
    return replay::count_parameters(shipped(name).what).total / 1e9;
  };
  CHECK(billions("llama-3.1-405b") == Approx(405.85).margin(0.005));
  CHECK(billions("deepseek-v3") == Approx(671.03).margin(0.005));
  CHECK(billions("llama-3.1-70b") == Approx(70.55).margin(0.005));
  CHECK(billions("llama-3.1-8b") == Approx(8.03).margin(0.005));
  CHECK(billions("qwen3-30b-a3b") == Approx(30.53).margin(0.005));
  CHECK(replay::count_parameters(shipped("deepseek-v3").what).active / 1e9 == Approx(37.55).margin(0.005));
  CHECK(replay::layer_parameters(shipped("llama-3.1-405b").what, 0, 1) / 1e9 == Approx(3.188).margin(0.0005));
}

TEST_CASE("TFLOP per step by MaxText's rule") {
  const auto ds = shipped("deepseek-v3").what;
  CHECK(replay::step_flops(ds, 8 * 4096, 4096).total / 1e12 == Approx(8207).margin(0.5));
  CHECK(replay::step_flops(ds, 8 * 4096, 4096).attention / 1e12 == Approx(1006).margin(0.5));
  CHECK(replay::step_flops(ds, 2 * 4096, 4096).total / 1e12 == Approx(2052).margin(0.5));
  const auto ll = shipped("llama-3.1-405b").what;
  CHECK(replay::step_flops(ll, 2 * 8192, 8192).total / 1e12 == Approx(41352).margin(0.5));
  CHECK(replay::step_flops(ll, 2 * 8192, 8192).attention / 1e12 == Approx(1662).margin(0.5));
}

TEST_CASE("bytes per tensor, layer and model") {
  constexpr std::size_t mib = 1024 * 1024;
  const replay::description ll = shipped("llama-3.1-405b");
  CHECK(replay::tensor_bytes(ll.what, 7, tensor::q, ll.how.tokens()) == 512 * mib);
  CHECK(replay::tensor_bytes(ll.what, 7, tensor::k, ll.how.tokens()) == 32 * mib);
  CHECK(replay::tensor_bytes(ll.what, 7, tensor::v, ll.how.tokens()) == 32 * mib);
  CHECK(replay::layer_bytes(ll.what, 7, ll.how.offload, ll.how.tokens()) == 576 * mib);
  CHECK(in_gib(replay::model_bytes(ll.what, ll.how.offload, ll.how.tokens())) == 70.875);
  for (const tensor none : {tensor::q_a, tensor::kv_a, tensor::router, tensor::routed}) {
    CHECK(replay::tensor_bytes(ll.what, 7, none, ll.how.tokens()) == 0);
  }

  const replay::description ds = shipped("deepseek-v3");
  for (const std::size_t layer : {std::size_t{0}, std::size_t{60}}) {  // dense, with experts
    CHECK(replay::tensor_bytes(ds.what, layer, tensor::q_a, 1) == 3072);
    CHECK(replay::tensor_bytes(ds.what, layer, tensor::kv_a, 1) == 1152);
    CHECK(replay::tensor_bytes(ds.what, layer, tensor::gate, 1) + replay::tensor_bytes(ds.what, layer, tensor::up, 1) ==
          73728);
    CHECK(replay::layer_bytes(ds.what, layer, ds.how.offload, 1) == 77952);
  }
  CHECK(replay::tensor_bytes(ds.what, 0, tensor::routed, 1) == 0);
  CHECK(replay::tensor_bytes(ds.what, 60, tensor::routed, 1) == 8 * 7168 * 2);
  CHECK(replay::tensor_bytes(ds.what, 60, tensor::k, 1) == 128 * 192 * 2);
  CHECK(replay::tensor_bytes(ds.what, 60, tensor::v, 1) == 128 * 128 * 2);
  CHECK(replay::model_bytes(ds.what, ds.how.offload, 32768) == std::size_t{77952} * 32768 * 61);
  CHECK(in_gib(replay::model_bytes(ds.what, ds.how.offload, 32768)) == Approx(145.113).margin(0.0005));
}

TEST_CASE("what goes over the network in a step") {
  const replay::description ds = shipped("deepseek-v3");
  const replay::volumes v = replay::step_volumes(ds.what, ds.how);
  CHECK(4 * v.all_to_all / 1e9 == Approx(763).margin(0.5));  // two forward, two backward
  CHECK(5 * v.all_to_all / 1e9 == Approx(954).margin(0.5));
  CHECK((2 * v.gather + v.scatter) / 1e9 == Approx(563).epsilon(0.005));
  replay::description ll = shipped("llama-3.1-405b");
  CHECK(replay::step_volumes(ll.what, ll.how).gather / 1e9 == Approx(227).margin(0.5));
  CHECK(replay::step_volumes(ll.what, ll.how).scatter / 1e9 == Approx(805).margin(0.5));
  ll.how.gathered = hostoffload::precision::bf16;
  CHECK(replay::step_volumes(ll.what, ll.how).gather / 1e9 == Approx(805).margin(0.5));
}
