#pragma once
// Byte counts for people. No CUDA here.

#include <array>
#include <cstddef>
#include <iomanip>
#include <sstream>
#include <string>
#include <string_view>

namespace hostoffload::inline v0::detail {

[[nodiscard]] inline std::string readable_bytes(std::size_t bytes) {
  constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  std::ostringstream text;
  text << std::fixed << std::setprecision(unit == 0 ? 0 : 2) << value << ' ' << units.at(unit);
  return text.str();
}

}  // namespace hostoffload::inline v0::detail
