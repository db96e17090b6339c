#pragma once
// What the virtual GPU did in one step, put in terms of the workload.

#include "workload.hpp"

#include <hostoffload/virtual_gpu/control.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace schedules {

namespace vgpu = hostoffload::virtual_gpu;

/// Seconds since the step began.
struct interval {
  double begin = 0, end = 0;
};

/// The bytes of a tensor on the device.
struct residency {
  std::size_t tensor = 0;
  double begin = 0, end = 0;
};

struct operation {
  std::uint64_t id = 0;
  std::string name{};  ///< what it does, and to which segment or tensor
  std::string resource{};
  std::uint64_t stream = 0;
  double begin = 0, end = 0;
  double bytes = 0;
  std::vector<std::uint64_t> behind{};  ///< of its stream the one before; a wait: the record that it waits for as well
};

struct step_timeline {
  double step_s = 0;                                 ///< from when the step may begin to the end of the last segment
  std::vector<interval> segments{};                  ///< by segment
  std::vector<std::optional<interval>> out{}, in{};  ///< copies, by tensor; none: kept
  std::vector<double> marks{};          ///< when the events recorded were reached, in the order of recording
  std::vector<operation> operations{};  ///< in order of completion
};

/// Holds the compute stream back, so that the host has enqueued all of the step before it begins; starts the timeline.
void begin_timeline(cudaStream_t compute);
/// Synchronises and reads what was enqueued since begin_timeline: one kernel per segment, on `compute`, in order;
/// `made_at` says to which device memory each tensor was written. Throws std::runtime_error when the virtual GPU has
/// found a fault in the program.
[[nodiscard]] step_timeline end_timeline(const workload& w, const std::vector<const void*>& made_at);

/// Launches segment `index`; it reads and writes the tensors' memory as the workload says, `at` being where each is.
void launch_segment(const workload& w, const accesses& a, std::size_t index, const std::vector<const void*>& at,
                    cudaStream_t compute);

/// From the first access of a tensor's bytes to the last, copies included; two intervals where it was put away.
[[nodiscard]] std::vector<residency> accessed(const workload& w, const step_timeline& t);
/// The largest sum of bytes at one time.
[[nodiscard]] double peak_bytes(const workload& w, const std::vector<residency>& all);

}  // namespace schedules
