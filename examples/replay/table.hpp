#pragma once
// Results as text and as JSON.

#include "own.hpp"
#include "rows.hpp"

#include <string>
#include <vector>

namespace replay {

/// The published tables again: simulated, published and error of each figure, and whether it was fitted.
[[nodiscard]] std::string table(const std::vector<row>& rows);

/// The constants that are assumed, with their sources, and the machine's that the rows use.
[[nodiscard]] std::string sources(const assumptions& with, const vgpu::machine& machine);

/// {"rows": [{"row", "tflops_per_device", "published", "error", "gpu_peak_gib", "host_gib", "window_gib", "fits",
/// "basis"}, …]}: null where there is no figure; "error" is simulated / published - 1; "basis" is of the throughput.
[[nodiscard]] std::string json(const std::vector<row>& rows);

[[nodiscard]] std::string table(const std::vector<own_row>& rows, const description& d, const vgpu::machine& machine);
[[nodiscard]] std::string json(const std::vector<own_row>& rows);

}  // namespace replay
