#pragma once
// The virtual machine on which a workload is stepped.

#include "workload.hpp"

#include <hostoffload/virtual_gpu/machine.hpp>

namespace schedules {

namespace vgpu = hostoffload::virtual_gpu;

/// The workload's machine with the workload's link rates. Memory has no end, since windows are what is measured; a
/// segment takes its time to the last bit, since kernel latencies are contained in it.
[[nodiscard]] vgpu::machine machine_for(const workload& w);

}  // namespace schedules
