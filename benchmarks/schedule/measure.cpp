#include "measure.hpp"

#include "machine.hpp"
#include "peers.hpp"
#include "recorded.hpp"
#include "trainer.hpp"

#include <hostoffload/errors.hpp>
#include <hostoffload/schedule/plan_step.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace schedules {
namespace {

constexpr std::string_view ours = "planned";
constexpr std::string_view ours_at = "planned@";
constexpr std::string_view on_paper = "predicted";
constexpr double window_allowance = 1.1;  // of the least window, for the free choice

const peer& peer_named(std::string_view name) {
  const auto found = std::find_if(peers().begin(), peers().end(), [&](const peer& p) { return p.name == name; });
  if (found == peers().end()) throw std::invalid_argument("no schedule is called " + std::string(name));
  return *found;
}

cuda_step::result step_on(const vgpu::machine& m, const peer& p, const workload& w) {
  vgpu::reset(m, 1, vgpu::mode::dry);
  return p.step(w);
}

struct trained {
  trained_step step{};
  std::size_t window = 0, reserve = 0;
};

/// With a plan in the window and a reserve of the largest access on top. Where no plan fits into the window the
/// scheduler looks ahead, and has no more than the window for that.
trained train_on(const vgpu::machine& m, const workload& w, double window_bytes) {
  trained t{{}, static_cast<std::size_t>(window_bytes) / 256 * 256, largest_access(w)};
  vgpu::reset(m, 1, vgpu::mode::dry);
  t.step = train(w, t.window, t.reserve);
  if (t.step.planned) return t;
  t.reserve = 0;
  vgpu::reset(m, 1, vgpu::mode::dry);
  t.step = train(w, t.window, t.reserve);
  return t;
}

void measure_peer(measured& m, const workload& w, const peer& p) {
  cuda_step::result r = step_on(machine_for(w), p, w);
  m.figures.step_s = r.timeline.step_s;
  m.figures.exposed_s = r.timeline.step_s - step_on(infinitely_fast_link(machine_for(w)), p, w).timeline.step_s;
  m.figures.window_bytes = peak_bytes(w, r.held);
  m.figures.peak_bytes = peak_bytes(w, accessed(w, r.timeline));
  m.timeline = std::move(r.timeline);
  m.held = std::move(r.held);
}

void measure_ours(measured& m, const workload& w, double window) {
  trained t = train_on(machine_for(w), w, window);
  vgpu::reset(infinitely_fast_link(machine_for(w)), 1, vgpu::mode::dry);
  const double free_s = train(w, t.window, t.reserve).timeline.step_s;
  m.held = accessed(w, t.step.timeline);
  m.figures.step_s = t.step.timeline.step_s;
  m.figures.exposed_s = t.step.timeline.step_s - free_s;
  m.figures.window_bytes = static_cast<double>(t.window);
  m.figures.reserve_bytes = static_cast<double>(t.reserve);
  m.figures.peak_bytes = peak_bytes(w, m.held);
  if (t.step.planned) m.figures.planned_peak_bytes = t.step.planned_peak_bytes;
  m.timeline = std::move(t.step.timeline);
}

void predict(measured& m, const workload& w, double window) {
  const auto plan = hostoffload::plan_step(recorded(w), static_cast<std::size_t>(window));
  if (!plan) {
    m.figures.refused = "no plan fits into the window";
    return;
  }
  m.figures.step_s = plan->step_s;
  m.figures.exposed_s = plan->step_s - plan->compute_s;
  m.figures.window_bytes = static_cast<double>(plan->window_bytes);
  m.figures.peak_bytes = static_cast<double>(plan->alive_bytes);
  m.figures.planned_peak_bytes = static_cast<double>(plan->alive_bytes);
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names{std::string(ours), std::string(on_paper)};
  for (const peer& p : peers()) {
    names.emplace_back(p.name);
    names.push_back(std::string(ours_at).append(p.name));
  }
  return names;
}

bounds bounds_of(const workload& w) {
  bounds b;
  b.step = bound_step(w);
  b.window_bytes = least_window(w, b.step.step_s());
  return b;
}

measured measure(const workload& w, const bounds& b, std::string_view schedule) {
  measured m;
  m.figures.workload = w.name;
  m.figures.schedule = schedule;
  m.figures.bound_s = b.step.step_s();
  m.figures.least_window_bytes = b.window_bytes;
  try {
    if (schedule == ours) {
      measure_ours(m, w, window_allowance * b.window_bytes);
    } else if (schedule == on_paper) {
      predict(m, w, window_allowance * b.window_bytes);
    } else if (schedule.substr(0, ours_at.size()) == ours_at) {
      const peer& other = peer_named(schedule.substr(ours_at.size()));
      measure_ours(m, w, peak_bytes(w, step_on(machine_for(w), other, w).held));
    } else {
      measure_peer(m, w, peer_named(schedule));
    }
  } catch (const hostoffload::window_error& too_small) {
    m.figures.refused = too_small.what();
  }
  return m;
}

}  // namespace schedules
