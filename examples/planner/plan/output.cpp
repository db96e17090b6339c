#include "output.hpp"

#include "words.hpp"

#include "planner/header.hpp"

#include <hostoffload/memory/slot_size.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace planner {
namespace {

std::string row(const std::string& name, const stepped& s, double least, const budgets& within) {
  if (!s.fits) {
    std::string missing;
    if (s.device_bytes > within.device) missing = size_text(s.device_bytes - within.device) + " of device memory";
    if (s.host_bytes > within.host) {
      missing += (missing.empty() ? "" : " and ") + size_text(s.host_bytes - within.host) + " of host memory";
    }
    return fmt::format("{:<22} {}\n", name,
                       missing.empty() ? "does not fit side by side into the window left" : missing + " are missing");
  }
  return fmt::format("{:<22} {:>12} {:>11.4f} {:>12} {:>12} {:>12}\n", name, time_text(s.step_s), s.step_s / least,
                     size_text(s.device_bytes), s.window_bytes == 0 ? "-" : size_text(s.window_bytes),
                     size_text(s.host_bytes));
}

/// Of the best placement when the scheduler is to plan it.
std::string planned_row(const record_answer& a, const budgets& within) {
  constexpr auto name = "best, .plan = true";
  if (a.best_planned.fits && !a.best_planned.planned) {
    return fmt::format("{:<22} no plan is made in this window: steps are as without one\n", name);
  }
  return row(name, a.best_planned, a.least_step_s, within);
}

nlohmann::ordered_json figures(const std::string& name, const stepped& s) {
  nlohmann::ordered_json j;
  j["placement"] = name;
  j["fits"] = s.fits;
  j["step_s"] = s.fits ? nlohmann::ordered_json(s.step_s) : nlohmann::ordered_json(nullptr);
  j["device_bytes"] = s.device_bytes;
  j["window_bytes"] = s.window_bytes;
  j["least_window_bytes"] = s.least_window_bytes;
  j["host_bytes"] = s.host_bytes;
  j["planned"] = s.planned;
  return j;
}

std::vector<std::string> lines_of(const record_problem& p, const mix& m) {
  std::vector<std::string> lines;
  for (std::size_t name = 0; name < p.asked.names.size(); ++name) lines.push_back(describe(p.asked, m, name));
  return lines;
}

}  // namespace

std::string text_of(const record_answer& a, const step_program& program, const record_problem& p, const options& o,
                    const ho::virtual_gpu::machine& m) {
  std::size_t bytes = 0;
  for (const program_tensor& t : program.tensors) bytes += ho::detail::slot_size(t.bytes);
  std::string text = fmt::format(
      "{}: {} of {} in {}, {}; {} of work, {}\n"
      "Link: {}, {:.4g} GB/s to the host and {:.4g} from it. Budgets: {} of device memory for the tensors, {} of host "
      "memory\n\n",
      o.record, counted(program.tensors.size(), "tensor"), counted(p.asked.names.size(), "name"),
      counted(program.layers, "layer"), size_text(bytes), time_text(program.seconds),
      counted(program.definitions.size(), "definition"), o.machine.empty() ? "as recorded" : "that of " + m.name,
      m.link.to_host.value / 1e9, m.link.to_device.value / 1e9, size_text(o.within.device), size_text(o.within.host));
  text += fmt::format("{:<22} {:>12} {:>11} {:>12} {:>12} {:>12}\n", "placement", "step", "over bound", "device",
                      "of it window", "host");
  for (const tried_placement& t : a.plain) text += row(t.name, t.seen, a.least_step_s, o.within);
  text += row("best", a.best->seen, a.least_step_s, o.within);
  if (a.best->seen.host_bytes > 0) text += planned_row(a, o.within);
  text +=
      fmt::format("{:<22} {:>12}   no placement within the budgets is faster\n\n", "bound", time_text(a.least_step_s));
  text += fmt::format("The best of {} that were stepped:\n", a.evaluations);
  for (const std::string& line : lines_of(p, a.best->placed)) text += "  " + line + '\n';
  return text;
}

std::string json_of(const record_answer& a, const record_problem& p, const options& o) {
  nlohmann::ordered_json j;
  j["record"] = o.record;
  j["device_budget_bytes"] = o.within.device;
  j["host_budget_bytes"] = o.within.host;
  j["bound_step_s"] = a.least_step_s;
  j["evaluations"] = a.evaluations;
  auto& rows = j["rows"] = nlohmann::ordered_json::array();
  for (const tried_placement& t : a.plain) rows.push_back(figures(t.name, t.seen));
  rows.push_back(figures("best", a.best->seen));
  rows.push_back(figures("best, planned", a.best_planned));
  auto& names = j["best"] = nlohmann::ordered_json::array();
  for (std::size_t name = 0; name < p.asked.names.size(); ++name) {
    for (const layer_choice& r : a.best->placed.ranges(name)) {
      names.push_back({{"name", p.asked.names[name].text},
                       {"first_layer", r.first},
                       {"last_layer", r.last - 1},
                       {"placement", ho::to_string(r.chosen)}});
    }
  }
  return j.dump(2) + '\n';
}

std::string header_of(const record_answer& a, const record_problem& p, const options& o) {
  const stepped& s = a.best->seen;
  std::vector<std::string> notes{
      fmt::format("Planned from {} for {} of device memory for the step's tensors and {} of host memory:", o.record,
                  size_text(o.within.device), size_text(o.within.host)),
      fmt::format("step {} on the virtual GPU, {:.4f} times the bound; {} of the host, .window = {}",
                  time_text(s.step_s), s.step_s / a.least_step_s, size_text(s.host_bytes), s.window_bytes)};
  return placement_header(p.asked, a.best->placed, notes);
}

}  // namespace planner
