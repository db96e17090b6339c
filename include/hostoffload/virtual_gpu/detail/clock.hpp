#pragma once
// Who is ordered before whom, independently of when things run.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hostoffload::inline v0::virtual_gpu::detail {

/// One lane per stream; lane 0 is the host. Lanes of destroyed streams are used again, with their ticks continued.
using lane = std::uint32_t;
inline constexpr lane host_lane = 0;

/// Vector clock: for each lane the last tick that is known to be ordered before the clock's owner.
class vector_clock {
public:
  [[nodiscard]] std::uint64_t operator[](lane l) const noexcept { return l < ticks_.size() ? ticks_[l] : 0; }

  /// Does the owner come after tick `tick` of lane `l`?
  [[nodiscard]] bool after(lane l, std::uint64_t tick) const noexcept { return (*this)[l] >= tick; }

  void set(lane l, std::uint64_t tick) {
    if (l >= ticks_.size()) ticks_.resize(l + std::size_t{1});
    ticks_[l] = tick;
  }

  void join(const vector_clock& other) {
    if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t i = 0; i < other.ticks_.size(); ++i) ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
  }

private:
  std::vector<std::uint64_t> ticks_;
};

}  // namespace hostoffload::inline v0::virtual_gpu::detail
