#include <hostoffload/virtual_gpu/machine.hpp>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <stdexcept>

namespace hostoffload::inline v0::virtual_gpu {
namespace {

constexpr double giga = 1e9;
constexpr double tera = 1e12;
constexpr double micro = 1e-6;
constexpr double gibi = 1024.0 * 1024 * 1024;

constexpr auto xla = "openxla/xla, gpu target configurations (s)";
constexpr auto nvbandwidth = "nvbandwidth logs in guides of Azure and OCI (m)";
constexpr auto ramp = "fit to nvbandwidth's sizes: latency + bytes / rate (m)";

// Costs that do not differ much between hosts: middle of the ranges seen in traces of trainers.
host_costs usual_costs() {
  host_costs c;
  c.copy = 2.4 * micro;         // (m)
  c.batch_entry = 1.1 * micro;  // batches of small copies are 1.9 to 2.4 times faster (m)
  c.launch = 3 * micro;         // 2.6 to 6 (m)
  c.record = 0.75 * micro;      // 0.5 to 1 (m)
  c.wait = 0.5 * micro;         // (m)
  c.query = 0.5 * micro;        // (u)
  c.synchronise = 1 * micro;    // (u)
  c.allocate = 10 * micro;      // (u)
  c.pool = 2 * micro;           // 1 to 3 from a warm pool (u)
  c.create = 1 * micro;         // (u)
  c.graph = 2.5 * micro;        // (u)
  c.graph_node = 1e-3 * micro;  // (u)
  c.other = 0.2 * micro;        // (u)
  c.pin_fresh = {2.5 * gibi, "cudaHostAlloc, 2 to 3 GiB/s (m)"};
  c.pin_touched = {8.5 * gibi, "touched by many threads, then cudaHostRegister, 7 to 10 GiB/s (m)"};
  c.pageable = {2.7 * giga, "staged copy of a pageable target (m)"};
  return c;
}

machine common() {
  machine m;
  m.kernel_latency = {1 * micro, "gap between small kernels of one stream (u)"};
  m.wait_latency = {3 * micro, "stream wait on an event, on the device (m)"};
  m.link.first_latency = {7 * micro, ramp};
  m.link.queued_latency = {2 * micro, ramp};
  m.link.batched_latency = {0.9 * micro, "batches of small copies are 1.9 to 2.4 times faster, vLLM PR 6496 (m)"};
  m.host_function = {100 * micro, "host callback, end to end (m)"};
  m.link.all_to_device = m.link.all_to_host = m.link.all_both = {unbounded, "not measured, taken as no bound (u)"};
  m.host = usual_costs();
  return m;
}

void hopper(machine& m) {
  m.compute_major = 9;
  m.compute_minor = 0;
  m.multiprocessors = 132;
  m.l2_bytes = 50.0 * 1024 * 1024;
  m.compute[hostoffload_fp64] = {67 * tera, "tensor cores, data sheet (s)"};
  m.compute[hostoffload_fp32] = {67 * tera, "vector units, data sheet (s)"};
  m.compute[hostoffload_tf32] = {395 * tera, "half of the measured BF16 rate (u)"};
  m.compute[hostoffload_bf16] = {790 * tera, "H200 cuBLASLt BF16 8192^3, Azure AI benchmarking guide (m)"};
  m.compute[hostoffload_fp8] = {1301 * tera, "H200 cuBLASLt FP8 8192^3, Azure AI benchmarking guide (m)"};
  m.compute[hostoffload_fp4] = {0, "no FP4 units"};
  m.peer = {450 * giga, "NVLink 4 data sheet (s)"};
}

void x86_host(machine& m) {
  m.host_memory = {2048 * gibi, "usual for eight GPUs (u)"};
  m.devices_per_host = 8;
}

void pcie5(machine& m) {
  x86_host(m);
  m.link.to_device = {55 * giga, nvbandwidth};
  m.link.to_host = {55 * giga, nvbandwidth};
  m.link.both = {53 * giga, nvbandwidth};
}

void blackwell(machine& m) {
  m.compute_major = 10;
  m.compute_minor = 0;
  m.l2_bytes = 126.0 * 1024 * 1024;
  m.peer = {900 * giga, "NVLink 5 data sheet (s)"};
}

void grace_with_two(machine& m) {
  m.host_memory = {480 * giga, "LPDDR5X of one Grace, data sheet (s)"};
  m.devices_per_host = 2;
}

}  // namespace

machine gb200() {
  machine m = common();
  m.name = "GB200";
  blackwell(m);
  grace_with_two(m);
  m.multiprocessors = 152;
  m.device_memory = {184.3 * gibi, xla};
  m.compute[hostoffload_fp64] = {40 * tera, "half of the superchip's, data sheet (s)"};
  m.compute[hostoffload_fp32] = {80 * tera, "vector units, half of the superchip's, data sheet (s)"};
  m.compute[hostoffload_tf32] = {695.5 * tera, "quarter of the measured FP8 rate (u)"};
  m.compute[hostoffload_bf16] = {1391 * tera, "half of the measured cuBLASLt FP8 8192^3 rate (u); peak 2400 (s)"};
  m.compute[hostoffload_fp8] = {2782 * tera, "cuBLASLt FP8 8192^3, Azure AI benchmarking guide (m)"};
  m.compute[hostoffload_fp4] = {7609 * tera, "cuBLASLt FP4 8192^3, Azure AI benchmarking guide (m)"};
  m.hbm = {7.93 * tera, xla};
  m.link.to_device = {201 * giga, nvbandwidth};
  m.link.to_host = {193 * giga, nvbandwidth};
  m.link.both = {165 * giga, nvbandwidth};
  m.link.all_to_device = {2 * 168 * giga, nvbandwidth};
  m.link.all_to_host = {2 * 182 * giga, nvbandwidth};
  m.link.all_both = {4 * 82 * giga, nvbandwidth};
  return m;
}

machine gb300() {
  machine m = common();
  m.name = "GB300";
  blackwell(m);
  grace_with_two(m);
  m.compute_minor = 3;
  m.multiprocessors = 152;  // (u)
  m.device_memory = {276.6 * gibi, xla};
  constexpr auto as_gb200 = "as measured on GB200, which has the same peak (u)";
  m.compute[hostoffload_fp64] = {1.2 * tera, "data sheet (u)"};
  m.compute[hostoffload_fp32] = {80 * tera, "vector units, as GB200 (u)"};
  m.compute[hostoffload_tf32] = {695.5 * tera, as_gb200};
  m.compute[hostoffload_bf16] = {1391 * tera, as_gb200};
  m.compute[hostoffload_fp8] = {2782 * tera, as_gb200};
  m.compute[hostoffload_fp4] = {11900 * tera, "the share of the peak that GB200 reaches, 0.79 (u); peak 15000 (s)"};
  m.hbm = {7.93 * tera, xla};
  m.link.to_device = {211 * giga, nvbandwidth};
  m.link.to_host = {193 * giga, nvbandwidth};
  m.link.both = {165 * giga, "as GB200, same host (u)"};
  m.link.all_to_device = {2 * 172 * giga, "nvbandwidth, 169 to 175 each seen (m)"};
  m.link.all_to_host = {2 * 182 * giga, nvbandwidth};
  m.link.all_both = {4 * 82 * giga, "as GB200, same host (u)"};
  return m;
}

machine gh200() {
  machine m = common();
  m.name = "GH200";
  hopper(m);
  m.device_memory = {96 * giga, "HBM3 version, data sheet (s)"};
  m.host_memory = {480 * giga, "LPDDR5X of one Grace, data sheet (s)"};
  m.hbm = {4.0 * tera, "HBM3 version, data sheet (s)"};
  m.link.to_device = {338 * giga, "nvbandwidth, 338 to 375 seen (m)"};
  m.link.to_host = {295 * giga, "nvbandwidth, 295 to 297 seen (m)"};
  m.link.both = {160 * giga, nvbandwidth};
  return m;
}

machine h200() {
  machine m = common();
  m.name = "H200";
  hopper(m);
  pcie5(m);
  m.device_memory = {141.0 * gibi, xla};
  m.hbm = {4.0 * tera, "copy on the device; 4.80 is the specification (m)"};
  return m;
}

machine h100() {
  machine m = common();
  m.name = "H100";
  hopper(m);
  pcie5(m);
  m.device_memory = {79.1 * gibi, xla};
  m.hbm = {3.35 * tera, xla};
  return m;
}

machine b200() {
  machine m = common();
  m.name = "B200";
  blackwell(m);
  pcie5(m);
  m.multiprocessors = 148;
  m.device_memory = {178.4 * gibi, xla};
  constexpr auto like_gb200 = "the share of the peak that GB200 reaches (u)";
  m.compute[hostoffload_fp64] = {37 * tera, "data sheet (s)"};
  m.compute[hostoffload_fp32] = {75 * tera, "vector units, data sheet (s)"};
  m.compute[hostoffload_tf32] = {646 * tera, like_gb200};
  m.compute[hostoffload_bf16] = {1292 * tera, "the share of the peak that GB200 reaches (u); peak 2230 (s)"};
  m.compute[hostoffload_fp8] = {2579 * tera, like_gb200};
  m.compute[hostoffload_fp4] = {7062 * tera, like_gb200};
  m.hbm = {7.67 * tera, xla};
  for (auto* rate : {&m.link.to_device, &m.link.to_host, &m.link.both}) rate->source = "as H200, PCIe 5 (u)";
  return m;
}

machine a100() {
  machine m = common();
  m.name = "A100";
  x86_host(m);
  m.compute_major = 8;
  m.compute_minor = 0;
  m.multiprocessors = 108;
  m.l2_bytes = 40.0 * 1024 * 1024;
  m.device_memory = {79.2 * gibi, "SXM 80 GB (u)"};
  m.compute[hostoffload_fp64] = {19.5 * tera, "tensor cores, data sheet (s)"};
  m.compute[hostoffload_fp32] = {19.5 * tera, "vector units, data sheet (s)"};
  m.compute[hostoffload_tf32] = {156 * tera, "peak, data sheet (s)"};
  m.compute[hostoffload_bf16] = {312 * tera, "peak, data sheet (s)"};
  m.compute[hostoffload_fp8] = {0, "no FP8 units"};
  m.compute[hostoffload_fp4] = {0, "no FP4 units"};
  m.hbm = {2.04 * tera, "SXM 80 GB (u)"};
  m.peer = {300 * giga, "NVLink 3 data sheet (s)"};
  m.link.to_device = {26 * giga, nvbandwidth};
  m.link.to_host = {25 * giga, nvbandwidth};
  m.link.both = {18.5 * giga, nvbandwidth};
  return m;
}

namespace {

struct known_machine {
  const char* name;
  machine (*make)();
};
constexpr known_machine known[] = {{"gb200", gb200}, {"gb300", gb300}, {"gh200", gh200}, {"h200", h200},
                                   {"h100", h100},   {"b200", b200},   {"a100", a100}};

}  // namespace

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const auto& k : known) names.emplace_back(k.name);
  return names;
}

machine machine_named(std::string_view name) {
  const auto* k = std::find_if(std::begin(known), std::end(known), [&](const auto& x) { return x.name == name; });
  if (k != std::end(known)) return k->make();
  std::string all;
  for (const auto& x : known) all += (all.empty() ? "" : ", ") + std::string(x.name);
  throw std::invalid_argument("no machine is called \"" + std::string(name) + "\"; there are " + all);
}

machine scaled_to(const machine& full, const model_scale& scale) {
  if (!(scale.hidden > 0 && scale.full_hidden > 0 && scale.element_bytes > 0 && scale.full_element_bytes > 0)) {
    throw std::invalid_argument("scaled_to: hidden sizes and element bytes must be positive");
  }
  const double compute = (scale.hidden / scale.element_bytes) / (scale.full_hidden / scale.full_element_bytes);
  const double bytes = (scale.hidden * scale.hidden * scale.element_bytes) /
                       (scale.full_hidden * scale.full_hidden * scale.full_element_bytes);
  machine m = full;
  for (auto& rate : m.compute) rate.value *= compute;
  for (auto* number : {&m.device_memory, &m.host_memory, &m.kernel_latency, &m.wait_latency, &m.host_function,
                       &m.link.first_latency, &m.link.queued_latency, &m.link.batched_latency}) {
    number->value *= bytes;
  }
  for (auto* cost : {&m.host.copy, &m.host.batch_entry, &m.host.launch, &m.host.record, &m.host.wait, &m.host.query,
                     &m.host.synchronise, &m.host.allocate, &m.host.pool, &m.host.create, &m.host.graph,
                     &m.host.graph_node, &m.host.other}) {
    *cost *= bytes;
  }
  m.scale.compute *= compute;
  m.scale.bytes *= bytes;
  return m;
}

machine infinitely_fast_link(machine m) {
  constexpr auto free_link = "copies for free, to compare with";
  for (auto* rate : {&m.link.to_device, &m.link.to_host, &m.link.both, &m.link.all_to_device, &m.link.all_to_host,
                     &m.link.all_both}) {
    *rate = {unbounded, free_link};
  }
  m.link.first_latency = m.link.queued_latency = m.link.batched_latency = {0, free_link};
  m.name += " with an infinitely fast link";
  return m;
}

}  // namespace hostoffload::inline v0::virtual_gpu
