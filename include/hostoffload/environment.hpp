#pragma once
// What the process's environment takes from overlap. Read when a scheduler is built, in this one function. No CUDA
// here.

#include <cstdlib>
#include <string_view>
#include <vector>

namespace hostoffload::inline v0::detail {

/// One line per variable that keeps copies and kernels from overlapping (CUDA Programming Guide, "CUDA Environment
/// Variables").
[[nodiscard]] inline std::vector<std::string_view> warnings_of_environment() {
  const auto value = [](const char* name) {
    const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody writes to it meanwhile
    return std::string_view(text != nullptr ? text : "");
  };
  std::vector<std::string_view> found;
  if (const auto blocking = value("CUDA_LAUNCH_BLOCKING"); !blocking.empty() && blocking != "0") {
    found.emplace_back("CUDA_LAUNCH_BLOCKING is set: the host waits for every kernel, so no copy is hidden; unset it");
  }
  if (value("CUDA_DEVICE_MAX_CONNECTIONS") == "1") {
    found.emplace_back(
        "CUDA_DEVICE_MAX_CONNECTIONS is 1: all streams share one queue, so copies wait behind kernels that they do not "
        "depend on; unset it, or set it to 8 or more");
  }
  return found;
}

}  // namespace hostoffload::inline v0::detail
