#pragma once
// Runs effects in an order of its own that the program allows, instead of when the simulation completes them. What the
// program allows is what vector clocks say: an effect may run when all those that its operation is ordered behind have
// run, and must have run when the host knows of its operation.

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include <hostoffload/virtual_gpu/detail/clock.hpp>
#include <hostoffload/virtual_gpu/detail/effect.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

class execution_order {
public:
  /// 0: what is left runs now, and effects run again when they complete.
  void choose(std::uint64_t seed);
  [[nodiscard]] bool chosen() const noexcept { return seed_ != 0; }

  /// Takes the effect over from an operation that stands at `tick` of its lane and is ordered behind `clock`.
  void defer(effect& e, lane in_lane, std::uint64_t tick, const vector_clock& clock, int device);
  /// All that `known` is ordered behind runs, and perhaps more.
  void finish(const vector_clock& known);
  void finish_all() { run_down_to(0); }
  /// What a device still had to do is not done.
  void forget(int device);

private:
  struct deferred {
    effect does;
    vector_clock clock;
    std::uint64_t tick = 0;
    int device = 0;
  };
  using queue = std::deque<std::unique_ptr<deferred>>;

  static constexpr std::size_t most = 4096;

  [[nodiscard]] bool ready(lane l) const;
  [[nodiscard]] bool any_known(const vector_clock& known) const;
  void run_down_to(std::size_t left);
  void run_one();
  void change_mind();

  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
  std::vector<queue> lanes_;
  std::vector<char> late_;  // lanes that come last for now
  std::size_t waiting_ = 0;
  std::vector<lane> early_ready_, late_ready_;  // of run_one
  std::vector<std::unique_ptr<deferred>> unused_;
};

}  // namespace hostoffload::inline v0::virtual_gpu::detail
