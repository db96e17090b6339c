#pragma once
// Element types of the model: float, double, and bfloat16, which is stored only: arithmetic on it is done in float. And
// what kernels declare of them.

#include <hostoffload/launch.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace examples {

namespace ho = hostoffload;

/// The upper half of a float. Conversion to it rounds to nearest, ties to even; NaN stays NaN.
struct bf16 {
  bf16() = default;

  HOSTOFFLOAD_DEVICE explicit bf16(float value) {
    std::uint32_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    const bool is_nan = (word & 0x7fffffffU) > 0x7f800000U;
    const std::uint32_t rounded = word + 0x7fffU + ((word >> 16U) & 1U);
    bits = static_cast<std::uint16_t>((is_nan ? word | 0x400000U : rounded) >> 16U);
  }

  HOSTOFFLOAD_DEVICE explicit operator float() const {
    const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16U;
    float value = 0;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }

  std::uint16_t bits;
};

static_assert(sizeof(bf16) == 2 && std::is_trivially_copyable_v<bf16> &&
              std::is_trivially_default_constructible_v<bf16>);

/// What arithmetic, gradients, master weights and moments are kept in.
template <class T>
using compute_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// The rate that matrix products run at.
template <class T>
inline constexpr ho::precision rate_of = std::is_same_v<T, double>  ? ho::precision::fp64
                                         : std::is_same_v<T, float> ? ho::precision::fp32
                                                                    : ho::precision::bf16;

/// What a kernel declares to read or write.
template <class T>
ho::byte_range range(const T* begin, std::size_t elements) {
  return {begin, elements * sizeof(T)};
}

}  // namespace examples
