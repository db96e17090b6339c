#include "table.hpp"

#include "arithmetic.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace replay {
namespace {

double tokens_per_second(const own_row& r, std::size_t sequence) {
  return static_cast<double>(r.micro_batch * sequence) / r.simulated.step_s;
}

/// "903.8 / 908.2 -0.5 %", or the simulated figure alone.
std::string beside(double simulated, double measured, int digits) {
  if (measured == 0) return fmt::format("{:>7.{}f}", simulated, digits);
  return fmt::format("{:>7.{}f} /{:>7.{}f} {:>+6.1f} %", simulated, digits, measured, digits,
                     100 * (simulated / measured - 1));
}

std::string line(const row& r) {
  const outcome& s = r.simulated;
  const published m = r.measured.value_or(published{});
  std::string text =
      fmt::format("{:<18} {:<8} {:<15} {:>3}  ", r.name, r.placement, r.schedule, r.options.of.how.micro_batch);
  if (!s.fits) {
    const bool agrees = r.measured && m.tflops_per_device == 0;
    return text + fmt::format("out of memory{}\n", agrees ? ", as published" : "");
  }
  text += fmt::format("{:<26} {:<9}  {:<26} {:<26} {:>6.2f}  {:>6.2f}\n",
                      beside(s.tflops_per_device, m.tflops_per_device, 1),
                      r.throughput == basis::fitted ? "fitted" : "predicted", beside(s.gpu_peak_gib, m.gpu_peak_gib, 1),
                      beside(s.host_gib, m.host_gib, 1), s.window_gib, s.step_s);
  if (!r.reason.empty()) text += "    (" + r.name + ": " + r.reason + ")\n";
  return text;
}

nlohmann::ordered_json figures(const outcome& s) {
  nlohmann::ordered_json j;
  j["tflops_per_device"] = s.fits ? nlohmann::ordered_json(s.tflops_per_device) : nlohmann::ordered_json(nullptr);
  return j;
}

void add_memory(nlohmann::ordered_json& j, const outcome& s) {
  const auto or_null = [&](double value) {
    return s.fits ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  j["gpu_peak_gib"] = or_null(s.gpu_peak_gib);
  j["host_gib"] = or_null(s.host_gib);
  j["window_gib"] = or_null(s.window_gib);
  j["fits"] = s.fits;
}

}  // namespace

std::string table(const std::vector<row>& rows) {
  std::string text =
      fmt::format("{:<18} {:<8} {:<15} {:>3}  {:<26} {:<9}  {:<26} {:<26} {:>6}  {:>6}\n", "row", "placed", "schedule",
                  "mb", "TFLOP/s/device simulated /", "", "GPU peak, GiB", "host, GiB", "window", "step s");
  text += fmt::format("{:<18} {:<8} {:<15} {:>3}  {:<26} {:<9}  {:<26} {:<26} {:>6}\n", "", "", "", "",
                      "   published, error", "is", "predicted", "predicted", "GiB");
  for (const row& r : rows) text += line(r);
  return text;
}

std::string sources(const assumptions& with, const vgpu::machine& m) {
  std::string text = "Assumed:\n";
  for (const constant& c : all_constants()) {
    text += fmt::format("  {:<24} {:>12.6g} {}: {}{}\n", c.name, with.*c.value, c.unit, c.source,
                        c.fitted_on.empty() ? "" : fmt::format(" (on row {})", c.fitted_on));
  }
  text += m.name + ":\n";
  const auto add = [&](const char* name, const vgpu::sourced& s) {
    text += fmt::format("  {:<24} {:>12.6g} {}\n", name, s.value, s.source);
  };
  add("memory, B", m.device_memory);
  add("BF16, FLOP/s", m.rate(hostoffload_bf16));
  add("FP8, FLOP/s", m.rate(hostoffload_fp8));
  add("FP4, FLOP/s", m.rate(hostoffload_fp4));
  add("HBM, B/s", m.hbm);
  add("GPU to GPU, B/s", m.peer);
  add("to device, all, B/s", m.link.all_to_device);
  add("to host, all, B/s", m.link.all_to_host);
  add("both, all, B/s", m.link.all_both);
  return text;
}

std::string json(const std::vector<row>& rows) {
  nlohmann::ordered_json all;
  all["rows"] = nlohmann::ordered_json::array();
  for (const row& r : rows) {
    nlohmann::ordered_json j{{"row", r.name}};
    j.update(figures(r.simulated));
    j["published"] = nullptr;
    j["error"] = nullptr;
    if (r.measured && r.measured->tflops_per_device != 0) {
      j["published"] = r.measured->tflops_per_device;
      if (r.simulated.fits) j["error"] = r.simulated.tflops_per_device / r.measured->tflops_per_device - 1;
    }
    add_memory(j, r.simulated);
    j["basis"] = r.throughput == basis::fitted ? "fitted" : "predicted";
    all["rows"].push_back(j);
  }
  return all.dump(2) + "\n";
}

std::string table(const std::vector<own_row>& rows, const description& d, const vgpu::machine& m) {
  const parameter_counts n = count_parameters(d.what);
  std::string text = fmt::format(
      "{}: {:.2f} B parameters, {:.2f} B active; {} devices (FSDP {} x expert parallel {}), sequence {}\n"
      "One rank of them on {}: a pool of {:.1f} GiB, link {:.0f} GB/s to the host and {:.0f} from it\n\n",
      d.what.name, n.total / 1e9, n.active / 1e9, d.how.devices(), d.how.fsdp, d.how.expert_parallel, d.how.sequence,
      m.name, m.device_memory.value / (1024.0 * 1024 * 1024), m.link.to_host.value / 1e9, m.link.to_device.value / 1e9);
  text += fmt::format("{:<13} {:>5} {:>8} {:>7} {:>7} {:>7} {:>11} {:>10}  {}\n", "placement", "batch", "GPU GiB",
                      "host", "window", "step s", "TFLOP/s/dev", "tokens/s", "tensors");
  for (const own_row& r : rows) {
    const outcome& s = r.simulated;
    text += fmt::format("{:<13} {:>5} ", r.placement, r.micro_batch);
    if (s.fits) {
      text += fmt::format("{:>8.1f} {:>7.1f} {:>7.2f} {:>7.3f} {:>11.1f} {:>10.0f}  {}\n", s.gpu_peak_gib, s.host_gib,
                          s.window_gib, s.step_s, s.tflops_per_device, tokens_per_second(r, d.how.sequence),
                          r.largest ? "the largest batch that fits" : r.put_away);
    } else {
      text += fmt::format("{:>8}  no room for {:.2f} GiB of {} memory; {}\n", "-", s.missing_gib,
                          s.host_is_full ? "host" : "GPU", r.put_away);
    }
  }
  return text;
}

std::string json(const std::vector<own_row>& rows) {
  nlohmann::ordered_json all;
  all["rows"] = nlohmann::ordered_json::array();
  for (const own_row& r : rows) {
    nlohmann::ordered_json j{
        {"placement", r.placement}, {"tensors", r.put_away}, {"micro_batch", r.micro_batch}, {"largest", r.largest}};
    j.update(figures(r.simulated));
    add_memory(j, r.simulated);
    all["rows"].push_back(j);
  }
  return all.dump(2) + "\n";
}

}  // namespace replay
