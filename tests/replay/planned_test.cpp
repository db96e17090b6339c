// The header that replay --plan wrote, compiled into the replay's layers.

#include "description_file.hpp"
#include "placed_tensor.hpp"
#include "run.hpp"

#include <hostoffload/virtual_gpu/control.hpp>

#include <nlohmann/json.hpp>

#include "catch.hpp"

#include <fstream>
#include <string>

namespace {

nlohmann::json plan() {
  std::ifstream file(REPLAY_TEST_PLAN);
  return nlohmann::json::parse(file).at("plans").at(0);
}

replay::run_options options_of(const nlohmann::json& plan) {
  replay::run_options o;
  o.of = replay::load_description(std::string(HOSTOFFLOAD_REPLAY_MODELS) + "/deepseek-v3.json").of;
  o.of.how.micro_batch = plan.at("micro_batch").get<std::size_t>();
  o.when.window_layers = plan.at("window_layers").get<double>();
  return o;
}

}  // namespace

TEST_CASE("the table that is compiled in is the mix that was found") {
  static_assert(hostoffload::placement_policy<replay::policy<replay::tensor::gate>>);
  const nlohmann::json found = plan();
  const replay::run_options o = options_of(found);
  std::size_t checked = 0;
  for (const nlohmann::json& range : found.at("placements")) {
    for (const replay::tensor t : replay::all_tensors) {
      if (range.at("tensor") != replay::to_string(t)) continue;
      for (auto layer = range.at("first_layer").get<std::size_t>(); layer < range.at("end_layer"); ++layer) {
        CAPTURE(replay::to_string(t), layer);
        CHECK(hostoffload::to_string(replay::placed_at(o, t, layer)) == range.at("choice").get<std::string>());
        ++checked;
      }
    }
  }
  CHECK(checked == replay::all_tensors.size() * o.of.what.layers);
}

TEST_CASE("a step with the table compiled in is within 1 % of the one that was planned, and fits") {
  const nlohmann::json found = plan();
  constexpr double gib = 1024.0 * 1024 * 1024;
  replay::vgpu::machine machine = replay::as_rank(replay::vgpu::gb200(), {});
  machine.device_memory.value = found.at("device_memory_gib").get<double>() * gib;
  machine.host_memory.value = found.at("host_memory_gib").get<double>() * gib;
  const replay::outcome seen = replay::step(machine, options_of(found));
  REQUIRE(seen.fits);
  CHECK(seen.step_s == Approx(found.at("step_s").get<double>()).epsilon(0.01));
  CHECK(seen.tflops_per_device == Approx(found.at("tflops_per_device").get<double>()).epsilon(0.01));
  CHECK(seen.tflops_per_device > 1000);
  CHECK(seen.gpu_peak_gib == Approx(found.at("gpu_peak_gib").get<double>()));
  CHECK(seen.host_gib == Approx(found.at("host_gib").get<double>()));
  for (const auto& f : replay::vgpu::findings()) FAIL_CHECK(f.message);
}
