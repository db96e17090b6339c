#pragma once
// The loop that the schedules of others share, and where each layer's passes begin and end.

#include "cuda_step.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace schedules {

/// Segments of one pass of one layer and micro batch; only layers with tensors have any.
struct layer_pass {
  std::size_t first = 0, last = 0;
};

/// A layer's pass that begins or ends with a segment.
struct pass_of_layer {
  std::size_t layer = 0, micro_batch = 0;
};

class passes {
public:
  explicit passes(const workload& w);

  [[nodiscard]] std::size_t layers() const noexcept { return layers_; }
  [[nodiscard]] const layer_pass& backward(std::size_t micro_batch, std::size_t layer) const {
    return backward_[micro_batch * layers_ + layer];
  }
  [[nodiscard]] std::optional<pass_of_layer> forward_begins(std::size_t segment) const {
    return at(forward_first_, segment);
  }
  [[nodiscard]] std::optional<pass_of_layer> forward_ends(std::size_t segment) const {
    return at(forward_last_, segment);
  }
  [[nodiscard]] std::optional<pass_of_layer> backward_begins(std::size_t segment) const {
    return at(backward_first_, segment);
  }
  [[nodiscard]] std::optional<pass_of_layer> backward_ends(std::size_t segment) const {
    return at(backward_last_, segment);
  }

private:
  using by_segment = std::vector<std::optional<pass_of_layer>>;
  [[nodiscard]] static std::optional<pass_of_layer> at(const by_segment& all, std::size_t segment) {
    return all[segment];
  }

  std::size_t layers_ = 0;
  std::vector<layer_pass> forward_, backward_;
  by_segment forward_first_, forward_last_, backward_first_, backward_last_;
};

/// A schedule says what happens before and after each segment is launched.
class peer_step {
public:
  explicit peer_step(const workload& w);
  peer_step(const peer_step&) = delete;
  peer_step& operator=(const peer_step&) = delete;
  virtual ~peer_step() = default;

  [[nodiscard]] cuda_step::result run();

protected:
  virtual void before(std::size_t segment) = 0;
  virtual void after(std::size_t segment) = 0;

  using lane = cuda_step::lane;
  using kind = moment::kind;

  [[nodiscard]] const tensor& at(std::size_t t) const { return cuda.step_of().tensors[t]; }
  [[nodiscard]] gap gap_of(std::size_t t) const { return cuda.gaps()[t]; }
  [[nodiscard]] const std::vector<std::size_t>& made(std::size_t segment) const {
    return cuda.by_segment().made[segment];
  }
  /// Tensors that are put away behind the segment, and tensors that the segment is the first to use again.
  [[nodiscard]] const std::vector<std::size_t>& leaving(std::size_t segment) const { return leaving_[segment]; }
  [[nodiscard]] const std::vector<std::size_t>& returning(std::size_t segment) const { return returning_[segment]; }
  /// Of one layer and micro batch, in the order in which they are used again.
  [[nodiscard]] const std::vector<std::size_t>& of_layer(const pass_of_layer& p) const {
    return of_layer_[p.micro_batch * layer.layers() + p.layer];
  }

  /// Never put away.
  void keep(std::size_t t);
  /// The moment at which the compute stream is past all that has been enqueued on it.
  [[nodiscard]] moment now() { return {kind::mark_reached, cuda.record(lane::compute)}; }
  /// From its making on until it is freed, at the earliest when it has been used for the last time before its gap.
  void holds_until(std::size_t t, moment freed);
  /// From its copy in on.
  void holds_again(std::size_t t);
  void holds_again(std::size_t t, moment freed);

  cuda_step cuda;
  passes layer;

private:
  std::vector<std::vector<std::size_t>> leaving_, returning_, of_layer_;
};

}  // namespace schedules
