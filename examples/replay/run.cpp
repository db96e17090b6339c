#include "run.hpp"

#include "network.hpp"

#include <hostoffload/virtual_gpu/control.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

namespace replay {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;

/// Of the slots of the layer's offloaded tensors, which are aligned.
std::size_t offloaded_bytes(const run_options& o) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < o.of.what.layers; ++i) {
    std::size_t sum = 0;
    for (const tensor t : all_tensors) {
      const std::size_t bytes = tensor_bytes(o.of.what, i, t, o.of.how.tokens());
      if (placed_at(o, t, i) == ho::choice::offload) sum += (bytes + 255) / 256 * 256;
    }
    most = std::max(most, sum);
  }
  return most;
}

/// With the rates that the run reaches.
vgpu::machine prepared(vgpu::machine m, const run_options& o) {
  const auto units = static_cast<hostoffload_precision>(o.of.how.products);
  if (m.rate(units).value <= 0) throw std::invalid_argument("matrix_type: " + m.name + " has no units for it");
  m.compute[units].value *= o.of.matrix_share;
  return m;
}

/// Three steps: the first records, the second is the first as planned, the third is timed.
double third_step(const run_options& o, const vgpu::machine& machine, std::size_t window, outcome& seen) {
  rank r(o, machine);

  ho::event before(ho::event_use::timing);
  ho::event after(ho::event_use::timing);
  {
    ho::prefetch_scheduler scheduler(
        {.compute = r.compute(), .window = window, .overlap = o.when.overlap, .sample_every = 0});
    network n(r, scheduler);
    const auto whole = [&n] { return n.step(); };
    for (int i = 0; i < 2; ++i) scheduler.run(whole);
    ho::event_ref(before).record(r.compute());
    scheduler.run(whole);
    ho::event_ref(after).record(r.compute());
    ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const ho::step_report done = scheduler.report();
    seen.late_fetches = static_cast<double>(done.late_fetches);
    seen.host_gib = static_cast<double>(done.host_bytes) / gib;
    seen.window_gib = static_cast<double>(done.window_bytes) / gib;
  }
  float milliseconds = 0;
  ho::check(cudaEventElapsedTime(&milliseconds, before.get(), after.get()), "cudaEventElapsedTime");
  seen.gpu_peak_gib = static_cast<double>(vgpu::memory_usage().device_peak) / gib;
  return static_cast<double>(milliseconds) / 1e3;
}

}  // namespace

vgpu::machine as_rank(vgpu::machine m, const assumptions& with) {
  m.device_memory.value *= with.pool_share;
  const double devices = m.devices_per_host;
  m.host_memory.value /= devices;
  vgpu::link_rates& link = m.link;
  link.to_device.value = std::min(link.to_device.value, link.all_to_device.value / devices);
  link.to_host.value = std::min(link.to_host.value, link.all_to_host.value / devices);
  link.both.value = std::min(link.both.value, link.all_both.value / devices / 2);
  return m;
}

placements place(const tensor_set& set, ho::choice chosen) {
  placements all{};
  for (const tensor t : all_tensors) {
    all[index_of(t)] = set.has(t) ? chosen : (t == tensor::input ? ho::choice::save : ho::choice::remat);
  }
  return all;
}

ho::choice placed_at(const run_options& o, tensor t, std::size_t layer) {
#ifdef HOSTOFFLOAD_REPLAY_PLACEMENT
  return []<std::size_t... I>(std::index_sequence<I...>, std::size_t of, ho::layer_position at) {
    constexpr std::array choices{&policy<all_tensors[I]>::at...};
    return choices.at(of)(at);
  }
  (std::make_index_sequence<all_tensors.size()>(), index_of(t), {layer, o.of.what.layers});
#else
  return o.by_layer.empty() ? o.placed[index_of(t)] : o.by_layer.at(layer)[index_of(t)];
#endif
}

step_costs measure_costs(const vgpu::machine& machine, const run_options& o) {
  constexpr double room = 1e15;
  run_options saved = o;
  saved.by_layer.clear();
  saved.placed.fill(ho::choice::save);
  vgpu::machine m = prepared(machine, o);
  m.device_memory.value = room;
  vgpu::reset(m, 1, vgpu::mode::dry);
  vgpu::record_timeline(false);
  rank r(saved, m, true);
  ho::event begin(ho::event_use::timing);
  const std::size_t beside = vgpu::memory_usage().device_bytes;
  ho::prefetch_scheduler scheduler({.compute = r.compute(), .window = 0, .sample_every = 0});
  network n(r, scheduler);
  const auto whole = [&n] { return n.step(); };
  scheduler.run(whole);  // allocates
  ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  ho::event_ref(begin).record(r.compute());
  scheduler.run(whole);
  ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  float milliseconds = 0;
  ho::check(cudaEventElapsedTime(&milliseconds, begin.get(), r.looked_at().get()), "cudaEventElapsedTime");
  step_costs costs = r.account().costs();
  costs.forward_s = static_cast<double>(std::nextafter(milliseconds, 0.0F)) / 1e3;
  costs.device_bytes = beside;
  return costs;
}

outcome step(const vgpu::machine& machine, const run_options& o) {
  const vgpu::machine m = prepared(machine, o);
  vgpu::reset(m, 1, vgpu::mode::dry);
  vgpu::record_timeline(false);
  outcome seen;
  try {
    const std::size_t layer = offloaded_bytes(o);
    const auto window = static_cast<std::size_t>(o.when.window_layers * static_cast<double>(layer));
    seen.step_s = third_step(o, m, window, seen);
    seen.fits = true;
    seen.tflops_per_device = step_flops(o.of.what, o.of.how.tokens(), o.of.how.sequence).total / seen.step_s / 1e12;
  } catch (const ho::out_of_memory& e) {
    seen = outcome{};
    seen.host_is_full = e.call() == "cudaHostAlloc";
    seen.missing_gib = static_cast<double>(e.requested()) / gib;
  }
  return seen;
}

}  // namespace replay
