#include "plan_output.hpp"

#include <planner/header.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace replay {
namespace {

constexpr double tera = 1e12;

/// Of the mixes that were tried and fit; 0: none does.
double best_tflops(const planned& p, std::size_t problem) {
  double best = 0;
  for (const planner::candidate& c : p.found.tried) {
    if (c.problem == problem && c.seen.fits) best = std::max(best, p.problems[problem].work / c.seen.step_s / tera);
  }
  return best;
}

const planner::problem& problem_of(const planned& p) { return p.problems[p.found.best->problem]; }

bool has_tensor(const planner::problem& p, std::size_t name) {
  for (std::size_t layer = 0; layer < p.layers; ++layer) {
    if (p.bytes_of({name, layer}) > 0) return true;
  }
  return false;
}

}  // namespace

std::string table(const planned_run& run) {
  const planned& p = run.answer;
  const outcome& s = p.simulated;
  const std::size_t n = p.found.best->problem;
  const planner::problem& best = problem_of(p);
  std::string text = fmt::format(
      "{} on {}: {:.1f} GiB of device and {:.1f} GiB of host memory\n\n"
      "micro batch {}: {:.1f} TFLOP/s/device, {:.3f} s a step; GPU peak {:.1f} GiB, host {:.1f} GiB, window {:.2f} "
      "GiB\n"
      "no mix of placements exceeds {:.1f} at this micro batch, and {:.1f} at any\n\n",
      run.of.what.name, run.machine, p.within.device_gib, p.within.host_gib, p.micro_batch(n), s.tflops_per_device,
      s.step_s, s.gpu_peak_gib, s.host_gib, s.window_gib, p.bound_tflops(n), p.most_tflops);
  for (std::size_t name = 0; name < best.names.size(); ++name) {
    if (has_tensor(best, name)) text += "  " + describe(best, p.found.best->placed, name) + "\n";
  }
  text += fmt::format("\n{:>11} {:>11} {:>7}   TFLOP/s/device; {} mixes were stepped\n", "micro batch", "best found",
                      "bound", p.found.tried.size());
  for (std::size_t i = 0; i < p.problems.size(); ++i) {
    const double reached = best_tflops(p, i);
    text += fmt::format("{:>11} {:>11} {:>7.1f}\n", p.micro_batch(i),
                        reached > 0 ? fmt::format("{:.1f}", reached) : "-", p.bound_tflops(i));
  }
  return text;
}

std::string json(const std::vector<planned_run>& runs) {
  nlohmann::ordered_json all;
  all["plans"] = nlohmann::ordered_json::array();
  for (const planned_run& run : runs) {
    const planned& p = run.answer;
    const std::size_t n = p.found.best->problem;
    nlohmann::ordered_json j{{"model", run.of.what.name},
                             {"machine", run.machine},
                             {"device_memory_gib", p.within.device_gib},
                             {"host_memory_gib", p.within.host_gib},
                             {"window_layers", p.window_layers},
                             {"micro_batch", p.micro_batch(n)},
                             {"tflops_per_device", p.simulated.tflops_per_device},
                             {"step_s", p.simulated.step_s},
                             {"gpu_peak_gib", p.simulated.gpu_peak_gib},
                             {"host_gib", p.simulated.host_gib},
                             {"bound_tflops_per_device", p.bound_tflops(n)},
                             {"bound_step_s", p.found.least_steps[n]},
                             {"bound_tflops_per_device_at_any_micro_batch", p.most_tflops},
                             {"evaluations", p.found.tried.size()}};
    j["placements"] = nlohmann::ordered_json::array();
    const planner::problem& best = problem_of(p);
    for (std::size_t name = 0; name < best.names.size(); ++name) {
      if (!has_tensor(best, name)) continue;
      for (const planner::layer_choice& r : p.found.best->placed.ranges(name)) {
        j["placements"].push_back({{"tensor", best.names[name].text},
                                   {"first_layer", r.first},
                                   {"end_layer", r.last},
                                   {"choice", ho::to_string(r.chosen)}});
      }
    }
    j["micro_batches"] = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < p.problems.size(); ++i) {
      const double reached = best_tflops(p, i);
      j["micro_batches"].push_back(
          {{"micro_batch", p.micro_batch(i)},
           {"tflops_per_device", reached > 0 ? nlohmann::ordered_json(reached) : nlohmann::ordered_json(nullptr)},
           {"bound_tflops_per_device", p.bound_tflops(i)}});
    }
    all["plans"].push_back(std::move(j));
  }
  return all.dump(2) + "\n";
}

std::string header(const planned_run& run) {
  const planned& p = run.answer;
  const std::size_t n = p.found.best->problem;
  return placement_header(
      problem_of(p), p.found.best->placed,
      {fmt::format("Planned by replay --plan for {} ({} layers) on {}, {} sequences of {} tokens per device, within",
                   run.of.what.name, run.of.what.layers, run.machine, p.micro_batch(n), run.of.how.sequence),
       fmt::format("{:.1f} GiB of device and {:.1f} GiB of host memory, with a window of {:g} layers.",
                   p.within.device_gib, p.within.host_gib, p.window_layers),
       fmt::format("Simulated: {:.3f} s a step, {:.1f} TFLOP/s per device; no mix takes less than {:.3f} s.",
                   p.simulated.step_s, p.simulated.tflops_per_device, p.found.least_steps[n])});
}

}  // namespace replay
