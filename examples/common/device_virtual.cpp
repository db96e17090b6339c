#include "device.hpp"

#include <hostoffload/virtual_gpu/control.hpp>

#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace examples {
namespace {

namespace vgpu = hostoffload::virtual_gpu;

vgpu::machine machine_of(const device_request& r) {
  vgpu::machine m = vgpu::machine_named(r.machine);
  if (r.scale_to == 0) return m;
  const auto bytes = static_cast<double>(r.element_bytes);
  return vgpu::scaled_to(m, {.hidden = static_cast<double>(r.hidden),
                             .full_hidden = static_cast<double>(r.scale_to),
                             .element_bytes = bytes,
                             .full_element_bytes = bytes});
}

vgpu::machine variant_of(vgpu::machine m, device::variant v) {
  if (v == device::variant::infinitely_fast_link) return vgpu::infinitely_fast_link(m);
  if (v == device::variant::unlimited_memory) m.device_memory.value = 1e15;
  return m;
}

const vgpu::sourced& matrix_rate(const vgpu::machine& m, ho::precision products) {
  return m.rate(static_cast<hostoffload_precision>(products));
}

}  // namespace

std::vector<std::string> machine_names() { return vgpu::machine_names(); }

device::device(const device_request& request) : request_(request) { begin(); }

bool device::has(variant) const { return true; }

void device::begin(variant v) {
  vgpu::reset(variant_of(machine_of(request_), v));
  vgpu::record_timeline(false);
}

double device::now() const { return vgpu::now(); }

std::size_t device::peak_bytes() const { return vgpu::memory_usage().device_peak; }

void device::check_faults() const {
  const std::vector<vgpu::finding> faults = vgpu::findings();
  if (!faults.empty()) throw std::logic_error("the virtual GPU found a fault in this run: " + faults.front().message);
}

std::size_t device::memory_bytes() const { return static_cast<std::size_t>(machine_of(request_).device_memory.value); }

double device::compute_factor() const { return 1 / machine_of(request_).scale.compute; }

std::string device::describe() const {
  const vgpu::machine m = machine_of(request_);
  const vgpu::sourced& rate = matrix_rate(m, request_.products);
  std::string text = fmt::format(
      "Machine: {}, {:.1f} MiB of memory, link {:.0f} GB/s to the host and {:.0f} from it, HBM {:.2f} TB/s\n"
      "Matrix products: {:.4g} TFLOP/s, {}\n",
      m.name, m.device_memory.value / (1024.0 * 1024.0), m.link.to_host.value / 1e9, m.link.to_device.value / 1e9,
      m.hbm.value / 1e12, rate.value / m.scale.compute / 1e12, rate.source);
  if (request_.scale_to == 0) return text;
  return text +
         fmt::format(
             "Scaled from hidden {} to {}: arithmetic by {:.5g}, capacities and latencies by {:.5g}, links and HBM not "
             "at all. So\n"
             "1 ms here stands for {:.4g} s at full size (sequence {}), 1 MiB for {:.4g} GiB and 1 TFLOP/s for "
             "{:.4g}.\n",
             request_.scale_to, request_.hidden, m.scale.compute, m.scale.bytes, 1e-3 / m.scale.bytes,
             request_.sequence * request_.scale_to / request_.hidden, 1 / m.scale.bytes / 1024, 1 / m.scale.compute);
}

std::string device::json() const {
  const vgpu::machine m = machine_of(request_);
  const vgpu::sourced& rate = matrix_rate(m, request_.products);
  const nlohmann::ordered_json facts{{"name", m.name},
                                     {"virtual", true},
                                     {"scaled_to_hidden", request_.scale_to},
                                     {"compute_factor", m.scale.compute},
                                     {"bytes_factor", m.scale.bytes},
                                     {"device_memory_bytes", memory_bytes()},
                                     {"matrix_tflops", rate.value / 1e12},
                                     {"matrix_rate_source", rate.source}};
  return facts.dump();
}

}  // namespace examples
