#pragma once
// Trainers made from a seed: what the proofs about waits, orders and failures run again and again. Every kernel's
// values are looked at, so a wrong bit shows; every kernel declares its bytes, so a missing order shows.

#include <hostoffload/hostoffload.hpp>
#include <hostoffload/virtual_gpu/control.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace proof {

namespace ho = hostoffload;

/// What a seed decides.
struct shape {
  std::uint64_t seed = 0;
  std::size_t layers = 1;         // 1 to 8
  std::size_t schedulers = 1;     // 1 or 2, each with layers of its own
  std::size_t micro_batches = 1;  // 1 to 3
  bool second_stream = false;     // some reads are on a stream of the trainer's
  bool straight_line = false;     // fetch instead of await
  bool side_by_side = false;      // two chains of layers in two coroutines at once
  bool stops_early = false;       // the backward pass ends in the middle: the step drops the rest
  double window = 1;              // of the least: from 1 to 4; 0: unlimited
  bool planned = false;           // steps are planned, from the fifth on; never drawn
  unsigned sample_every = 2;      // steps whose times are sampled; never drawn
};

[[nodiscard]] shape shape_of(std::uint64_t seed);
[[nodiscard]] std::string to_string(const shape& s);

/// Finds out the least window of a shape, before a program of it is built; resets the virtual GPU.
void prepare(const shape& s);

/// A trainer: built, stepped and destroyed. Its tensors keep their placements; `save_all` overrides them for reference
/// values.
class program {
public:
  program(const shape& s, bool save_all);
  program(const program&) = delete;
  program& operator=(const program&) = delete;
  ~program();

  /// Enqueues one step; `batch` changes all values. Of the uses in backward passes one may be left out, counted from 1.
  void step(float batch, std::size_t use_left_out = 0);
  /// Waits for the device: all values that kernels looked at since the last call, in order.
  [[nodiscard]] std::vector<float> values();
  [[nodiscard]] std::size_t least_window() const;
  /// Schedulers whose last completed step was enqueued from the list of an earlier one's calls.
  [[nodiscard]] std::size_t steps_repeated() const;
  /// Schedulers whose last completed step followed a plan.
  [[nodiscard]] std::size_t plans_followed() const;

private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace proof
