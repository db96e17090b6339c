#pragma once
// How large slots are. No CUDA here.

#include <cstddef>

namespace hostoffload::inline v0::detail {

/// Slots start at multiples of this many bytes, and their sizes are rounded up to it.
inline constexpr std::size_t slot_alignment = 256;

[[nodiscard]] constexpr std::size_t slot_size(std::size_t bytes) noexcept {
  return (bytes + slot_alignment - 1) / slot_alignment * slot_alignment;
}

}  // namespace hostoffload::inline v0::detail
