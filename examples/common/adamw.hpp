#pragma once
// AdamW: its options, its learning rate, and what changes from step to step.

#include "device_array.hpp"

#include <hostoffload/launch.hpp>

#include <cmath>
#include <cstddef>

namespace examples {

/// Decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101); norms do not decay. The learning rate rises
/// linearly over `warm_up` steps, then falls along a cosine to `last_share` of it at step `decay_until` (Loshchilov and
/// Hutter, arXiv 1608.03983, one cycle), and stays there; 0: no rise, no fall.
struct adamw_options {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  std::size_t warm_up = 0;
  std::size_t decay_until = 0;
  double last_share = 0.1;
};

/// Of step `number`, counted from 1.
HOSTOFFLOAD_DEVICE inline double learning_rate(const adamw_options& o, double number) {
  const auto warm_up = static_cast<double>(o.warm_up);
  const auto until = static_cast<double>(o.decay_until);
  if (number <= warm_up) return o.learning_rate * number / warm_up;
  if (until <= warm_up) return o.learning_rate;
  const double gone = number < until ? (number - warm_up) / (until - warm_up) : 1;
  constexpr double pi = 3.14159265358979323846;
  return o.learning_rate * (o.last_share + (1 - o.last_share) * (1 + std::cos(pi * gone)) / 2);
}

/// The number of the step and what follows from it. It lies on the device, so that a captured step, whose kernels keep
/// their arguments, goes on counting.
class adamw_step {
public:
  struct values {
    double number;    // of the last step; 0 before the first
    double rate;      // learning rate
    double correct1;  // of the moments, which start at zero
    double correct2;
  };

  explicit adamw_step(cudaStream_t stream) : now_(1) { now_.zero(stream); }

  /// The next step begins.
  void advance(const adamw_options& o, cudaStream_t stream) {
    values* const now = now_.data();
    ho::launch(
        stream, 1,
        [=] HOSTOFFLOAD_DEVICE(std::size_t) {
          const double number = now->number + 1;
          *now = {number, learning_rate(o, number), 1 / (1 - std::pow(o.beta1, number)),
                  1 / (1 - std::pow(o.beta2, number))};
        },
        ho::work{.name = "adamw step", .reads = {{now, sizeof *now}}, .writes = {{now, sizeof *now}}});
  }

  [[nodiscard]] const values* device() const { return now_.data(); }
  /// Waits for `stream`.
  [[nodiscard]] values read(cudaStream_t stream) const { return now_.to_host(stream).front(); }

private:
  device_array<values> now_;
};

}  // namespace examples
