#include "output.hpp"

#include <common/result_file.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <stdexcept>
#include <system_error>

namespace schedules {
namespace {

using nlohmann::ordered_json;

constexpr double gibi = 1024.0 * 1024 * 1024;

/// Without a sign where it rounds to nothing.
double percent(double share) { return std::round(share * 1e4) / 100 + 0.0; }

ordered_json figures(const row& r) {
  ordered_json j{{"workload", r.workload}, {"schedule", r.schedule}};
  if (!r.refused.empty()) {
    j["refused"] = r.refused;
    return j;
  }
  j["step_over_bound"] = r.step_s / r.bound_s;
  j["window_bytes"] = static_cast<std::uint64_t>(r.window_bytes);
  j["reserve_bytes"] = static_cast<std::uint64_t>(r.reserve_bytes);
  j["least_window_bytes"] = static_cast<std::uint64_t>(r.least_window_bytes);
  j["peak_bytes"] = static_cast<std::uint64_t>(r.peak_bytes);
  j["planned_peak_bytes"] = nullptr;
  if (r.planned_peak_bytes) j["planned_peak_bytes"] = static_cast<std::uint64_t>(*r.planned_peak_bytes);
  j["exposed_s"] = r.exposed_s;
  j["step_s"] = r.step_s;
  j["bound_s"] = r.bound_s;
  return j;
}

}  // namespace

std::string legend() {
  return "step/bound: over the largest of compute, the first tensor's making + all bytes out, all bytes in + what "
         "follows "
         "the last\n"
         "            arrival. Below 1: tensors that were kept moved no bytes\n"
         "win/least:  device memory for these tensors over the least with which that bound can be reached\n"
         "exposed:    the step less the same step with an infinitely fast link, as a share of the step\n"
         "peak:       the most bytes at one time that were accessed\n"
         "planned:    this library, window 1.1 x the least; planned@X: with the window that X used. A reserve, as "
         "large as\n"
         "            what one segment accesses, comes on top: it is for steps that depart from the plan\n"
         "predicted:  what this library's planner expects of planned, computed and not stepped\n";
}

std::string table(const workload& w, const bounds& b, const std::vector<row>& rows) {
  std::string text = fmt::format(
      "{}: {} layers, {} micro batches, {} tensors of {:.2f} GiB, {}\n"
      "  compute {:.4f} s, out {:.4f} s, in {:.4f} s; least window {:.3f} GiB\n"
      "  {:<28} {:>10} {:>10} {:>11} {:>10} {:>9} {:>10}\n",
      w.name, w.layers, w.micro_batches, w.tensors.size(), total_bytes(w) / gibi, w.source, b.step.compute_s,
      b.step.out_s, b.step.in_s, b.window_bytes / gibi, "schedule", "step s", "step/bound", "window GiB", "win/least",
      "exposed", "peak GiB");
  for (const row& r : rows) {
    if (!r.refused.empty()) {
      text += fmt::format("  {:<28} refused: {}\n", r.schedule, r.refused);
      continue;
    }
    text += fmt::format("  {:<28} {:>10.4f} {:>10.4f} {:>11.3f} {:>10.3f} {:>7.2f} % {:>10.3f}\n", r.schedule, r.step_s,
                        r.step_s / r.bound_s, r.window_bytes / gibi, r.window_bytes / r.least_window_bytes,
                        percent(r.exposed_s / r.step_s), r.peak_bytes / gibi);
  }
  return text;
}

std::string json(const std::vector<row>& rows) {
  ordered_json all = ordered_json::array();
  for (const row& r : rows) all.push_back(figures(r));
  return ordered_json{{"rows", all}}.dump(1) + "\n";
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  if (!std::filesystem::is_directory(folder)) {
    throw std::runtime_error(folder.string() + ": no folder, and none can be made: " +
                             (fault ? fault.message() : std::string("something else is there")));
  }
}

void dump(const std::filesystem::path& folder, const workload& w, const bounds& b) {
  ordered_json j{{"name", w.name},
                 {"machine", w.machine},
                 {"source", w.source},
                 {"layers", w.layers},
                 {"micro_batches", w.micro_batches},
                 {"link", {{"out", w.link.out}, {"in", w.link.in}, {"both", w.link.both}}},
                 {"bound",
                  {{"compute_s", b.step.compute_s},
                   {"out_s", b.step.out_s},
                   {"in_s", b.step.in_s},
                   {"step_s", b.step.step_s()},
                   {"least_window_bytes", static_cast<std::uint64_t>(b.window_bytes)}}}};
  ordered_json& segments = j["segments"] = ordered_json::array();
  for (const segment& s : w.segments) {
    segments.push_back(
        {{"seconds", s.seconds}, {"pass", to_string(s.of)}, {"layer", s.layer}, {"micro_batch", s.micro_batch}});
  }
  ordered_json& tensors = j["tensors"] = ordered_json::array();
  for (const tensor& t : w.tensors) {
    tensors.push_back({{"name", t.name},
                       {"layer", t.layer},
                       {"micro_batch", t.micro_batch},
                       {"bytes", t.bytes},
                       {"made_in", t.made_in},
                       {"used_in", t.used_in}});
  }
  examples::result_file((folder / (w.name + ".json")).string()).write(j.dump() + "\n");
}

void dump(const std::filesystem::path& folder, const measured& m) {
  ordered_json j = figures(m.figures);
  ordered_json& operations = j["operations"] = ordered_json::array();
  for (const operation& o : m.timeline.operations) {
    operations.push_back({{"id", o.id},
                          {"operation", o.name},
                          {"resource", o.resource},
                          {"stream", o.stream},
                          {"start", o.begin},
                          {"end", o.end},
                          {"bytes", o.bytes},
                          {"dependences", o.behind}});
  }
  ordered_json& held = j["held"] = ordered_json::array();
  for (const residency& r : m.held) held.push_back({{"tensor", r.tensor}, {"start", r.begin}, {"end", r.end}});
  examples::result_file((folder / (m.figures.workload + "." + m.figures.schedule + ".json")).string())
      .write(j.dump() + "\n");
}

}  // namespace schedules
