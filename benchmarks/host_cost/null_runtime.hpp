#pragma once
// CUDA runtime functions that do nothing, and a list of the calls that were made: what is left of a step is the
// library's own work.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace null_runtime {

/// A call that a step makes of the device.
struct call {
  enum class function : std::uint8_t { copy, record, wait, other };
  function is = function::other;
  const void* first = nullptr;  // target, event, or stream that waits
  const void* second = nullptr;
  std::size_t bytes = 0;
  cudaStream_t on = nullptr;
};

/// Calls are appended to `to` from now on; null: not.
void record_calls(std::vector<call>* to);

/// The same calls again, in order.
void replay(const std::vector<call>& calls);

}  // namespace null_runtime
