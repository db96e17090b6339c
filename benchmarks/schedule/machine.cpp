#include "machine.hpp"

#include <hostoffload/virtual_gpu/kernel.h>

namespace schedules {

vgpu::machine machine_for(const workload& w) {
  vgpu::machine m = vgpu::machine_named(w.machine);
  constexpr auto given = "as the workload says";
  m.name += ", " + w.name;
  m.device_memory = m.host_memory = {0x1p50, "no bound: windows are measured, not capacities"};
  m.devices_per_host = 1;
  m.link.to_host = {w.link.out, given};
  m.link.to_device = {w.link.in, given};
  m.link.both = {w.link.both, given};
  m.link.all_to_device = m.link.all_to_host = m.link.all_both = {vgpu::unbounded, "one GPU"};
  m.kernel_latency = {0, "contained in the segments' times"};
  m.compute[hostoffload_fp32] = {1e12, "FLOP only carry the segments' times"};
  m.host.pin_fresh = m.host.pin_touched = {0x1p60, "before the steps that are measured"};
  return m;
}

}  // namespace schedules
