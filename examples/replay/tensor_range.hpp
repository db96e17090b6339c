#pragma once
// Leases and spans as what kernels declare, and as rows of bf16.

#include "rank.hpp"

#include <cstddef>
#include <span>

namespace replay {

inline ho::byte_range range(std::span<const std::byte> s) { return {s.data(), s.size()}; }
inline ho::byte_range range(const ho::lease<const std::byte>& l) { return {l.data(), l.size()}; }

inline double width(std::size_t bytes, const rank& on) { return static_cast<double>(bytes) / bf16_bytes / on.rows(); }
inline double width(std::span<const std::byte> s, const rank& on) { return width(s.size(), on); }
inline double width(const ho::lease<const std::byte>& l, const rank& on) { return width(l.size(), on); }

}  // namespace replay
