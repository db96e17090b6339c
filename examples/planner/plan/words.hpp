#pragma once
// Numbers with units, for people.

#include <cstddef>
#include <string>

#include <fmt/format.h>

namespace planner {

/// "12.30 GiB", "35.10 MiB", "0.25 KiB".
inline std::string size_text(std::size_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 0x1p30) return fmt::format("{:.2f} GiB", value / 0x1p30);
  if (value >= 0x1p20) return fmt::format("{:.2f} MiB", value / 0x1p20);
  return fmt::format("{:.2f} KiB", value / 0x1p10);
}

/// "19.2500 s", "0.1412 ms".
inline std::string time_text(double seconds) {
  return seconds >= 1 ? fmt::format("{:.4f} s", seconds) : fmt::format("{:.4f} ms", seconds * 1e3);
}

/// "1 layer", "3 layers".
inline std::string counted(std::size_t n, const std::string& what) {
  return std::to_string(n) + ' ' + what + (n == 1 ? "" : "s");
}

}  // namespace planner
