#include "device.hpp"

#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace examples {
namespace {

struct memory {
  std::size_t free = 0, total = 0;
};
memory ask() {
  memory m;
  ho::check(cudaMemGetInfo(&m.free, &m.total), "cudaMemGetInfo");
  return m;
}

cudaDeviceProp properties() {
  int current = 0;
  cudaDeviceProp facts{};
  ho::check(cudaGetDevice(&current), "cudaGetDevice");
  ho::check(cudaGetDeviceProperties(&facts, current), "cudaGetDeviceProperties");
  return facts;
}

}  // namespace

std::vector<std::string> machine_names() { return {}; }

device::device(const device_request& request) : request_(request) { begin(); }

bool device::has(variant v) const { return v == variant::as_it_is; }

void device::begin(variant) {
  ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const memory m = ask();
  used_before_ = m.total - m.free;
}

double device::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::size_t device::peak_bytes() const {
  const memory m = ask();
  const std::size_t used = m.total - m.free;
  return used > used_before_ ? used - used_before_ : 0;
}

void device::check_faults() const {}

std::size_t device::memory_bytes() const { return ask().total; }

double device::compute_factor() const { return 1; }

std::string device::describe() const {
  const cudaDeviceProp p = properties();
  return fmt::format("Machine: {}, {:.1f} GiB of memory, compute capability {}.{}\n", p.name,
                     static_cast<double>(p.totalGlobalMem) / (1024.0 * 1024.0 * 1024.0), p.major, p.minor);
}

std::string device::json() const {
  const cudaDeviceProp p = properties();
  const nlohmann::ordered_json facts{{"name", p.name},
                                     {"virtual", false},
                                     {"compute_capability", fmt::format("{}.{}", p.major, p.minor)},
                                     {"device_memory_bytes", p.totalGlobalMem}};
  return facts.dump();
}

}  // namespace examples
