#include "evaluate.hpp"

#include "recorded_trainer.hpp"

#include <hostoffload/memory/slot_size.hpp>

#include <hostoffload/virtual_gpu/control.hpp>

#include <algorithm>

namespace planner {
namespace {

namespace vgpu = ho::virtual_gpu;

constexpr double no_bound = 0x1p50;  // bytes

struct run {
  double step_s = 0;
  ho::step_report report;
};

/// The step that counts is the first that repeats: the third, or the first that follows a plan made of a timed one.
run steps(const step_program& p, const std::vector<ho::choice>& placed, const vgpu::machine& m, std::size_t window,
          std::size_t host, bool plan) {
  vgpu::reset(m, 1, vgpu::mode::dry);
  vgpu::record_timeline(false);
  const ho::stream compute;
  ho::event before(ho::event_use::timing);
  ho::event after(ho::event_use::timing);
  run seen;
  {
    ho::prefetch_scheduler scheduler({.compute = compute.get(),
                                      .window = window,
                                      .host_capacity = host,
                                      .sample_every = plan ? 1000U : 0U,
                                      .plan = plan});
    recorded_trainer trainer(p, placed, scheduler);
    const auto whole = [&trainer] { return trainer.step(); };
    for (int i = 0; i < (plan ? 6 : 2); ++i) {
      scheduler.run(whole);
      ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }
    ho::event_ref(before).record(compute.get());
    scheduler.run(whole);
    ho::event_ref(after).record(compute.get());
    ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    seen.report = scheduler.report();
  }
  float milliseconds = 0;
  ho::check(cudaEventElapsedTime(&milliseconds, before.get(), after.get()), "cudaEventElapsedTime");
  seen.step_s = static_cast<double>(milliseconds) / 1e3;
  return seen;
}

std::size_t offloaded_bytes(const step_program& p, const std::vector<ho::choice>& placed) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < p.tensors.size(); ++i) {
    if (placed.at(i) == ho::choice::offload) sum += ho::detail::slot_size(p.tensors[i].bytes);
  }
  return sum;
}

vgpu::machine unbounded_machine() {
  constexpr auto recorded = "contained in the recorded times";
  vgpu::machine m = vgpu::gb200();
  m.name = "the machine of the record";
  m.device_memory = m.host_memory = {no_bound, "budgets are kept by the scheduler"};
  m.devices_per_host = 1;
  m.kernel_latency = m.wait_latency = {0, recorded};
  m.link.all_to_device = m.link.all_to_host = m.link.all_both = {vgpu::unbounded, "one GPU"};
  m.host = {};
  m.host.pin_fresh = m.host.pin_touched = m.host.pageable = {0x1p60, "before the steps that are measured"};
  return m;
}

}  // namespace

vgpu::machine machine_with(const ho::link_direction& to_host, const ho::link_direction& to_device) {
  constexpr auto recorded = "as recorded";
  vgpu::machine m = unbounded_machine();
  m.link.to_host = {to_host.rate, recorded};
  m.link.to_device = {to_device.rate, recorded};
  m.link.both = {(to_host.rate_while_both + to_device.rate_while_both) / 2, recorded};
  const double latency_s = (to_host.latency_s + to_device.latency_s) / 2;
  m.link.queued_latency = m.link.batched_latency = {latency_s, recorded};
  m.link.first_latency = {latency_s + (to_host.idle_s + to_device.idle_s) / 2, recorded};
  return m;
}

vgpu::machine machine_with(const vgpu::machine& described) {
  vgpu::machine m = unbounded_machine();
  m.name = described.name;
  m.wait_latency = described.wait_latency;
  m.link = described.link;
  return m;
}

stepped step_with(const step_program& p, const std::vector<ho::choice>& placed, const budgets& within,
                  const vgpu::machine& m, const stepping& how) {
  const std::size_t offloaded = offloaded_bytes(p, placed);
  stepped seen;
  seen.host_bytes = offloaded;
  // What lies beside the window does not depend on its size, if only it has room.
  run done = steps(p, placed, m, 4 * offloaded, ho::unlimited, false);
  const std::size_t beside = done.report.device_bytes - done.report.window_bytes;
  seen.least_window_bytes = done.report.least_window_bytes;
  seen.device_bytes = beside + seen.least_window_bytes;
  if (seen.device_bytes > within.device || offloaded > within.host) return seen;
  if (offloaded > 0) {
    seen.window_bytes = how.window != 0 ? how.window : std::min(offloaded + offloaded / 4, within.device - beside);
    try {
      done = steps(p, placed, m, seen.window_bytes, within.host, how.plan);
    } catch (const ho::window_error&) {  // what is in use at one time does not fit side by side
      return seen;
    }
  }
  seen.fits = true;
  seen.step_s = done.step_s;
  seen.planned = done.report.planned;
  seen.device_bytes = done.report.device_bytes;
  return seen;
}

}  // namespace planner
