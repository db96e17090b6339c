// What a step costs, and the best mix of it.

#include "plan.hpp"

#include "arithmetic.hpp"
#include "description_file.hpp"

#include <hostoffload/virtual_gpu/control.hpp>

#include "catch.hpp"

#include <algorithm>
#include <string>

namespace {

using replay::tensor;

replay::run_options shipped(const std::string& name) {
  replay::run_options o;
  o.of = replay::load_description(std::string(HOSTOFFLOAD_REPLAY_MODELS) + "/" + name + ".json").of;
  return o;
}

replay::vgpu::machine gb200_rank() { return replay::as_rank(replay::vgpu::gb200(), {}); }

const replay::making_cost& cost_of(const replay::step_costs& costs, std::size_t layer, tensor t) {
  const auto found = std::find_if(costs.makings.begin(), costs.makings.end(), [&](const replay::making_cost& m) {
    return m.layer == layer && std::find(m.makes.begin(), m.makes.end(), t) != m.makes.end();
  });
  REQUIRE(found != costs.makings.end());
  return *found;
}

}  // namespace

TEST_CASE("each definition costs what its kernels take alone, and all of a step what it takes with room for all") {
  replay::run_options o = shipped("deepseek-v3");
  o.of.how.micro_batch = 2;
  const replay::step_costs costs = measure_costs(gb200_rank(), o);
  // swiglu: three bf16 arrays of 8192 tokens x 18432, at the HBM's rate.
  CHECK(cost_of(costs, 60, tensor::act).seconds == Approx(3 * 2 * 8192.0 * 18432 / 7.93e12));
  CHECK(cost_of(costs, 60, tensor::act).makes.size() == 1);
  CHECK(cost_of(costs, 60, tensor::gate).makes.size() == 2);
  // Two products of 7168 x 18432 in the first layer, dense; both expert products of 8 of 9 parts behind it, in FP8.
  const double arithmetic = 2 * 2 * 8192.0 * 7168 * 18432 / gb200_rank().rate(hostoffload_fp8).value;
  CHECK(cost_of(costs, 0, tensor::gate).seconds > arithmetic);
  CHECK(cost_of(costs, 60, tensor::gate).seconds > arithmetic);
  // Seven definitions in dense layers, eight where experts are routed to.
  CHECK(costs.makings.size() == 3 * 8 + 58 * 9);
  CHECK(costs.makings.front().makes.front() == tensor::input);

  replay::vgpu::machine room = gb200_rank();
  room.device_memory.value = 1e15;
  o.placed.fill(hostoffload::choice::save);
  o.when = {.window_layers = 0};
  const replay::outcome saved = step(room, o);
  CHECK(costs.forward_s + costs.backward_s <= saved.step_s);
  CHECK(costs.forward_s + costs.backward_s == Approx(saved.step_s).epsilon(0.03));  // collectives slow kernels down
  CHECK(costs.tail_s > o.of.fixed_seconds);
  CHECK(costs.lead_s > 0);
}

TEST_CASE("what a definition costs again is what a step with its tensors dropped takes longer") {
  replay::run_options o = shipped("llama-3.1-8b");
  o.of.how.micro_batch = 2;
  replay::vgpu::machine room = replay::as_rank(replay::vgpu::machine_named("h200"), {});
  const replay::step_costs costs = measure_costs(room, o);
  room.device_memory.value = 1e15;
  o.when = {.window_layers = 0};
  o.placed.fill(hostoffload::choice::save);
  const double saved = step(room, o).step_s;
  for (const tensor dropped : {tensor::act, tensor::gate, tensor::attention, tensor::q}) {
    CAPTURE(to_string(dropped));
    o.placed.fill(hostoffload::choice::save);
    o.placed[index_of(dropped)] = hostoffload::choice::remat;
    double again = 0;
    for (std::size_t layer = 0; layer < o.of.what.layers; ++layer) again += cost_of(costs, layer, dropped).seconds;
    const double longer = step(room, o).step_s - saved;
    CHECK(longer >= 0.999 * again);
    CHECK(longer <= 1.15 * again);  // beside collectives, which take a part of the HBM's rate
  }
}

TEST_CASE("DeepSeek-V3 reaches 1000 TFLOP/s on 165.9 GiB of device and 220 GiB of host memory", "[long]") {
  const replay::run_options o = shipped("deepseek-v3");
  const replay::planned p = replay::plan(o.of, gb200_rank(), {165.9, 220}, 2, 0, 150, {});
  REQUIRE(p.best);
  CHECK(p.simulated.fits);
  CHECK(p.simulated.tflops_per_device > 1000);
  CHECK(p.simulated.gpu_peak_gib <= 165.9);
  CHECK(p.simulated.host_gib <= 220);
  CHECK(p.simulated.tflops_per_device <= p.bound_tflops(p.found.best->problem));
  CHECK(p.bound_tflops(p.found.best->problem) <= p.most_tflops);
  CHECK(p.found.tried.size() <= 150);
  for (const planner::candidate& c : p.found.tried) {
    if (c.seen.fits) CHECK(c.seen.step_s >= p.found.least_steps[c.problem]);
  }
}

TEST_CASE("Llama 405B reaches 2800 TFLOP/s in a GB200's share of memory", "[long]") {
  const replay::run_options o = shipped("llama-3.1-405b");
  const replay::planned p = replay::plan(o.of, gb200_rank(), replay::all_of(gb200_rank()), 2, 0, 40, {});
  REQUIRE(p.best);
  CHECK(p.simulated.fits);
  CHECK(p.simulated.tflops_per_device > 2800);
  CHECK(p.simulated.tflops_per_device <= p.bound_tflops(p.found.best->problem));
}
