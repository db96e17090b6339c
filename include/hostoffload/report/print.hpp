#pragma once
// A step's report as text for people and as JSON for programs.

#include <hostoffload/memory/readable_bytes.hpp>
#include <hostoffload/report/step_report.hpp>

#include <cmath>
#include <cstddef>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>

namespace hostoffload::inline v0 {

namespace detail {
/// What the plan chose for tensors that may be copied or made again.
inline void print_choice(std::ostream& text, const step_report& r) {
  if (r.plan_choice.empty()) return;
  std::string_view separator = "made again instead of copied: ";
  for (const tensor_report& t : r.tensors) {
    if (t.made_again == 0) continue;
    text << separator << t.name << ' ' << t.made_again << " of " << t.offloaded + t.rematerialised;
    separator = ", ";
  }
  if (separator != ", ") text << "no tensor is made again instead of copied";
  text << std::setprecision(4) << "; " << r.plan_choice;
  if (r.plan_offload_s > 0) text << "; predicted step time with all copied " << r.plan_offload_s * 1e3 << " ms";
  if (r.plan_remat_s > 0) text << ", with all made again " << r.plan_remat_s * 1e3 << " ms";
  text << '\n';
}

/// To the picosecond: a difference of two sums that are nearly alike is none.
inline double milliseconds(double seconds) { return std::round(seconds * 1e12) / 1e9 + 0.0; }
}  // namespace detail

/// One line per tensor name, then the totals.
inline std::ostream& operator<<(std::ostream& out, const step_report& r) {
  using detail::milliseconds;
  using detail::readable_bytes;
  if (r.step == 0) return out << "no step has completed yet\n";
  std::ostringstream text;  // so that the caller's stream keeps its format
  text << "step " << r.step << '\n'
       << std::left << std::setw(16) << "tensor" << std::right << std::setw(6) << "save" << std::setw(9) << "offload"
       << std::setw(7) << "remat" << std::setw(13) << "planned" << std::setw(13) << "freed" << std::setw(13) << "out"
       << std::setw(13) << "in" << std::setw(12) << "recomputed" << std::setw(6) << "late" << '\n';
  std::size_t fell_back = 0;
  for (const tensor_report& t : r.tensors) {
    text << std::left << std::setw(16) << t.name << std::right << std::setw(6) << t.saved << std::setw(9) << t.offloaded
         << std::setw(7) << t.rematerialised << std::setw(13) << readable_bytes(t.planned_bytes) << std::setw(13)
         << readable_bytes(t.freed_bytes) << std::setw(13) << readable_bytes(t.bytes_out) << std::setw(13)
         << readable_bytes(t.bytes_in) << std::setw(12) << t.recomputed << std::setw(6) << t.late_fetches << '\n';
    fell_back += t.fell_back;
  }
  text << "window " << (r.window_bytes == 0 ? "unlimited" : readable_bytes(r.window_bytes)) << ", used "
       << readable_bytes(r.window_peak_bytes) << ", least " << readable_bytes(r.least_window_bytes) << "; device peak "
       << readable_bytes(r.device_peak_bytes) << " of " << readable_bytes(r.device_bytes) << "; host peak "
       << readable_bytes(r.host_peak_bytes) << " of " << readable_bytes(r.host_bytes) << '\n'
       << "copies out " << r.copies_out << " (" << readable_bytes(r.bytes_out) << "), in " << r.copies_in << " ("
       << readable_bytes(r.bytes_in) << "); late fetches " << r.late_fetches << "; host waits " << r.host_waits << '\n';
  if (r.replays != 0) text << "launch " << r.replays << " of a captured step\n";
  if (r.repeated) text << "enqueued from the list of an earlier step's calls\n";
  if (r.sampled) {
    text << std::setprecision(4) << "step time " << milliseconds(r.step_s) << " ms, exposed "
         << milliseconds(r.exposed_s) << " ms (estimated from events around the compute stream's waits)\n";
  }
  if (!r.plan_note.empty()) text << "no plan: " << r.plan_note << '\n';
  if (r.without_plan_s != 0) {
    text << std::setprecision(4) << "steps with a plan took " << milliseconds(r.with_plan_s) << " ms, without one "
         << milliseconds(r.without_plan_s) << " ms (the fastest of some)\n";
  }
  if (r.plan_window_bytes != 0) {
    text << std::setprecision(4) << "plan " << (r.planned ? "followed" : "left") << ": window "
         << readable_bytes(r.plan_window_bytes) << ", of which " << readable_bytes(r.plan_alive_bytes)
         << " are alive at one time; " << readable_bytes(r.window_top_bytes) << " touched; step time "
         << milliseconds(r.plan_step_s) << " ms, exposed " << milliseconds(r.plan_exposed_s) << " ms\n";
  }
  detail::print_choice(text, r);
  if (fell_back != 0) text << fell_back << " tensors are not offloaded: the host memory did not last for them\n";
  for (const std::string_view w : r.warnings) text << "warning: " << w << '\n';
  return out << text.str();
}

/// An object with the fields of step_report and tensor_report under their names.
inline void to_json(std::ostream& out, const step_report& r) {
  std::ostringstream text;
  text << std::setprecision(17) << "{\"step\": " << r.step << ", \"step_s\": " << r.step_s
       << ", \"exposed_s\": " << r.exposed_s << ", \"sampled\": " << (r.sampled ? "true" : "false")
       << ", \"device_bytes\": " << r.device_bytes << ", \"device_peak_bytes\": " << r.device_peak_bytes
       << ", \"window_bytes\": " << r.window_bytes << ", \"window_peak_bytes\": " << r.window_peak_bytes
       << ", \"least_window_bytes\": " << r.least_window_bytes << ", \"host_bytes\": " << r.host_bytes
       << ", \"host_peak_bytes\": " << r.host_peak_bytes << ", \"bytes_out\": " << r.bytes_out
       << ", \"bytes_in\": " << r.bytes_in << ", \"copies_out\": " << r.copies_out << ", \"copies_in\": " << r.copies_in
       << ", \"late_fetches\": " << r.late_fetches << ", \"host_waits\": " << r.host_waits
       << ", \"replays\": " << r.replays << ", \"repeated\": " << (r.repeated ? "true" : "false")
       << ", \"planned\": " << (r.planned ? "true" : "false") << ", \"plan_departures\": " << r.plan_departures
       << ", \"plan_note\": " << std::quoted(r.plan_note) << ", \"with_plan_s\": " << r.with_plan_s
       << ", \"without_plan_s\": " << r.without_plan_s << ", \"plan_window_bytes\": " << r.plan_window_bytes
       << ", \"plan_alive_bytes\": " << r.plan_alive_bytes << ", \"window_top_bytes\": " << r.window_top_bytes
       << ", \"plan_step_s\": " << r.plan_step_s << ", \"plan_exposed_s\": " << r.plan_exposed_s
       << ", \"plan_choice\": " << std::quoted(r.plan_choice) << ", \"plan_offload_s\": " << r.plan_offload_s
       << ", \"plan_remat_s\": " << r.plan_remat_s << ", \"warnings\": [";
  std::string_view separator;
  for (const std::string_view w : r.warnings) {
    text << separator << std::quoted(w);
    separator = ", ";
  }
  text << "], \"tensors\": [";
  separator = {};
  for (const tensor_report& t : r.tensors) {
    text << separator << "{\"name\": " << std::quoted(t.name) << ", \"saved\": " << t.saved
         << ", \"offloaded\": " << t.offloaded << ", \"rematerialised\": " << t.rematerialised
         << ", \"fell_back\": " << t.fell_back << ", \"made_again\": " << t.made_again
         << ", \"planned_bytes\": " << t.planned_bytes << ", \"freed_bytes\": " << t.freed_bytes
         << ", \"bytes_out\": " << t.bytes_out << ", \"bytes_in\": " << t.bytes_in
         << ", \"recomputed\": " << t.recomputed << ", \"late_fetches\": " << t.late_fetches << '}';
    separator = ", ";
  }
  text << "]}";
  out << text.str();
}

}  // namespace hostoffload::inline v0
