#pragma once
// What a schedule of others is written with: CUDA streams, events, copies and launches for one step of a workload, and
// a record of when its memory is held. No scheduler, no plan.

#include "timeline.hpp"
#include "workload.hpp"

#include <hostoffload/cuda/allocation.hpp>
#include <hostoffload/cuda/event.hpp>
#include <hostoffload/cuda/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace schedules {

/// A moment of a step that is known when the step has run.
struct moment {
  enum class kind : std::uint8_t { segment_begins, segment_ends, copy_out_ends, copy_in_begins, mark_reached };
  kind what = kind::segment_begins;
  std::size_t index = 0;  // of a segment, tensor or mark
};

class cuda_step {
public:
  enum lane : std::uint8_t { compute, first_copies, second_copies, third_copies, fourth_copies };
  using mark = std::size_t;  // an event that has been recorded

  /// Memory for all tensors, on both sides: what a schedule frees and takes again is told to holds(), not to CUDA.
  explicit cuda_step(const workload& w);

  void begin() { begin_timeline(on(compute)); }
  void launch(std::size_t segment) { launch_segment(w_, accesses_, segment, at_, on(compute)); }
  void copy_out(std::size_t tensor, lane l);
  void copy_in(std::size_t tensor, lane l);
  [[nodiscard]] mark record(lane l);
  void wait(lane l, mark m);
  /// What is enqueued on `behind` from now on is behind all that is on `l` so far.
  void join(lane behind, lane l) { wait(behind, record(l)); }

  /// The tensor's bytes are taken from the device from then until the latest of `until`.
  void holds(std::size_t tensor, moment from, std::vector<moment> until);

  struct result {
    step_timeline timeline{};
    std::vector<residency> held{};
  };
  [[nodiscard]] result end();

  [[nodiscard]] const workload& step_of() const noexcept { return w_; }
  [[nodiscard]] const accesses& by_segment() const noexcept { return accesses_; }
  /// In which each tensor is put away: all these schedules do that between its forward and its backward pass.
  [[nodiscard]] const std::vector<gap>& gaps() const noexcept { return gaps_; }

private:
  struct hold {
    std::size_t tensor;
    moment from;
    std::vector<moment> until;
  };

  [[nodiscard]] cudaStream_t on(lane l) const noexcept { return streams_[l].get(); }

  const workload& w_;
  accesses accesses_;
  std::vector<gap> gaps_;
  hostoffload::device_allocation device_;
  hostoffload::pinned_allocation host_;
  std::vector<std::byte*> device_at_, host_at_;
  std::vector<const void*> at_;  // device_at_
  std::vector<hostoffload::stream> streams_;
  std::vector<hostoffload::event> events_;
  std::vector<hold> holds_;
};

}  // namespace schedules
