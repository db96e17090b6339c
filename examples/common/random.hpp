#pragma once
// Random numbers that are the same on every machine and compiler.

#include <cmath>
#include <cstdint>
#include <numbers>

namespace examples {

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
class random {
public:
  explicit random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  /// In (0, 1].
  double uniform() { return static_cast<double>((next() >> 11U) + 1) * 0x1p-53; }

  /// Mean 0, variance 1 (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

private:
  std::uint64_t state_;
};

}  // namespace examples
