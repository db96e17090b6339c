#include "plan.hpp"

#include "arithmetic.hpp"

#include <planner/bound.hpp>

#include <hostoffload/errors.hpp>

#include <algorithm>
#include <cmath>

namespace replay {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;
constexpr double roomy = 1e15;  // bytes; what a mix would need is known where it is more than there is
constexpr std::size_t most_sequences = 256;

std::size_t bytes_of(double in_gib) { return static_cast<std::size_t>(in_gib * gib); }

run_options options_for(const description& d, std::size_t micro_batch, double window_layers, const assumptions& with) {
  run_options o{
      d, {}, {.window_layers = window_layers, .buffers = static_cast<std::size_t>(with.look_ahead_buffers)}, with, {}};
  o.of.how.micro_batch = micro_batch;
  return o;
}

planner::problem problem_of(const vgpu::machine& machine, const run_options& o, const budgets& within) {
  const step_costs costs = measure_costs(machine, o);
  planner::problem p;
  p.work = step_flops(o.of.what, o.of.how.tokens(), o.of.how.sequence).total;
  p.layers = o.of.what.layers;
  for (const tensor t : all_tensors) {
    // A layer's input comes from the layer before, whose weights are not at hand in the backward pass.
    p.names.push_back({std::string(to_string(t)), {.remat = t != tensor::input}});
    for (std::size_t layer = 0; layer < p.layers; ++layer) {
      p.bytes.push_back(tensor_bytes(o.of.what, layer, t, o.of.how.tokens()));
    }
  }
  for (const making_cost& m : costs.makings) {
    planner::making made{{}, m.seconds};
    for (const tensor t : m.makes) made.makes.push_back({index_of(t), m.layer});
    p.makings.push_back(std::move(made));
  }
  p.forward_s = costs.forward_s;
  p.backward_s = costs.backward_s;
  p.lead_s = costs.lead_s;
  p.tail_s = costs.tail_s;
  p.to_host = machine.link.to_host.value;
  p.to_device = machine.link.to_device.value;
  p.device_budget = bytes_of(within.device_gib);
  p.host_budget = bytes_of(within.host_gib);
  p.device_beside = costs.device_bytes;
  p.leased = costs.leased_bytes;
  return p;
}

std::vector<placements> by_layer(const planner::mix& m) {
  std::vector<placements> all(m.layers());
  for (std::size_t layer = 0; layer < m.layers(); ++layer) {
    for (const tensor t : all_tensors) all[layer][index_of(t)] = m.at({index_of(t), layer});
  }
  return all;
}

}  // namespace

budgets all_of(const vgpu::machine& machine) {
  return {machine.device_memory.value / gib, machine.host_memory.value / gib};
}

double planned::bound_tflops(std::size_t problem) const {
  return problems.at(problem).work / found.least_steps.at(problem) / 1e12;
}

planned plan(const description& d, const vgpu::machine& machine, const budgets& within, double window_layers,
             std::size_t micro_batch, std::size_t evaluations, const assumptions& with) {
  planned result;
  result.within = within;
  result.window_layers = window_layers;
  result.first_micro_batch = std::max<std::size_t>(micro_batch, 1);
  const std::size_t last = micro_batch != 0 ? micro_batch : most_sequences;
  for (std::size_t batch = result.first_micro_batch; batch <= last; ++batch) {
    planner::problem p = problem_of(machine, options_for(d, batch, window_layers, with), within);
    if (!result.problems.empty() && std::isinf(planner::bound_step(p))) break;
    result.problems.push_back(std::move(p));
  }
  vgpu::machine without_limits = machine;
  without_limits.device_memory.value = without_limits.host_memory.value = roomy;
  const auto evaluate = [&](std::size_t n, const planner::mix& m) {
    run_options o = options_for(d, result.micro_batch(n), window_layers, with);
    o.by_layer = by_layer(m);
    planner::evaluation seen;
    try {
      const outcome stepped = step(without_limits, o);
      seen.step_s = stepped.step_s;
      seen.device_peak = bytes_of(stepped.gpu_peak_gib);
      seen.host_bytes = bytes_of(stepped.host_gib);
      seen.fits = stepped.fits && seen.device_peak <= bytes_of(within.device_gib) &&
                  seen.host_bytes <= bytes_of(within.host_gib);
    } catch (const ho::window_error&) {
      return planner::evaluation{};
    }
    return seen;
  };
  result.found = planner::search(result.problems, evaluate, {evaluations});
  result.most_tflops = result.found.most_rate / 1e12;
  if (!result.found.best) return result;

  const planner::candidate& best = *result.found.best;
  result.best = options_for(d, result.micro_batch(best.problem), window_layers, with);
  result.best->by_layer = by_layer(best.placed);
  vgpu::machine here = machine;
  here.device_memory.value = within.device_gib * gib;
  here.host_memory.value = std::max(1.0, within.host_gib * gib);
  result.simulated = step(here, *result.best);
  return result;
}

}  // namespace replay
