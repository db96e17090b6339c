#pragma once
// What a step with a mix is expected to take: a walk over its tensors that knows the link and a window, corrected by
// what was stepped. Fast, so that thousands of mixes can be looked at for each one that is stepped.

#include "mix.hpp"
#include "problem.hpp"
#include "search.hpp"

#include <cstddef>
#include <vector>

namespace planner {

struct estimate {
  double step_s = 0;
  double device_bytes = 0;
  double host_bytes = 0;
};

class estimator {
public:
  /// `p` outlives this.
  explicit estimator(const problem& p);

  [[nodiscard]] estimate of(const mix& m) const;
  /// Others are expected to differ from the walk as this one does.
  void learn(const mix& m, const evaluation& seen);

private:
  /// One definition in the order of the forward pass, or tensors that are never made again.
  struct stage {
    std::vector<cell> makes;
    double seconds = 0;
    double forward_s = 0, backward_s = 0;  // its part of the step's
  };
  struct sums {
    double saved = 0, offloaded = 0;
    double most_offloaded = 0, most_dropped = 0;  // in one layer
  };
  [[nodiscard]] sums add(const mix& m) const;
  [[nodiscard]] double walk(const mix& m, double window) const;
  [[nodiscard]] double window_of(const sums& s) const;
  [[nodiscard]] double passing(const sums& s) const;

  const problem& p_;
  std::vector<stage> stages_;
  // Device memory beside what is saved, in layers' worth of what is offloaded and of what is dropped: least squares
  // over what was stepped, beginning with a window of two layers and one layer that is made again.
  double window_layers_ = 2, dropped_layers_ = 1;
  double oo_ = 0, od_ = 0, dd_ = 0, ob_ = 0, db_ = 0;
  double time_ratio_ = 1, host_ratio_ = 1;
  std::size_t learned_ = 0;
};

}  // namespace planner
