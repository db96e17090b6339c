#include "cuda_step.hpp"

#include <algorithm>
#include <utility>

namespace schedules {
namespace {

namespace ho = hostoffload;

double value_of(const moment& m, const step_timeline& t) {
  switch (m.what) {
    case moment::kind::segment_begins:
      return t.segments[m.index].begin;
    case moment::kind::segment_ends:
      return t.segments[m.index].end;
    case moment::kind::copy_out_ends:
      return t.out[m.index].value().end;
    case moment::kind::copy_in_begins:
      return t.in[m.index].value().begin;
    case moment::kind::mark_reached:
      return t.marks[m.index];
  }
  return 0;
}

}  // namespace

cuda_step::cuda_step(const workload& w)
    : w_(w),
      accesses_(w),
      device_(static_cast<std::size_t>(total_bytes(w))),
      host_(static_cast<std::size_t>(total_bytes(w))) {
  auto* device = static_cast<std::byte*>(device_.region().begin);
  auto* host = static_cast<std::byte*>(host_.region().begin);
  for (const tensor& t : w.tensors) {
    gaps_.push_back(gap_between_passes(w, t));
    device_at_.push_back(device);
    host_at_.push_back(host);
    device += t.bytes;
    host += t.bytes;
  }
  at_.assign(device_at_.begin(), device_at_.end());
  for (int i = compute; i <= fourth_copies; ++i) streams_.emplace_back();
}

void cuda_step::copy_out(std::size_t tensor, lane l) {
  ho::detail::check(
      cudaMemcpyAsync(host_at_[tensor], device_at_[tensor], w_.tensors[tensor].bytes, cudaMemcpyDeviceToHost, on(l)),
      "cudaMemcpyAsync");
}

void cuda_step::copy_in(std::size_t tensor, lane l) {
  ho::detail::check(
      cudaMemcpyAsync(device_at_[tensor], host_at_[tensor], w_.tensors[tensor].bytes, cudaMemcpyHostToDevice, on(l)),
      "cudaMemcpyAsync");
}

cuda_step::mark cuda_step::record(lane l) {
  ho::event_ref(events_.emplace_back()).record(on(l));
  return events_.size() - 1;
}

void cuda_step::wait(lane l, mark m) { ho::event_ref(events_[m]).hold(on(l)); }

void cuda_step::holds(std::size_t tensor, moment from, std::vector<moment> until) {
  holds_.push_back({tensor, from, std::move(until)});
}

cuda_step::result cuda_step::end() {
  result r;
  r.timeline = end_timeline(w_, at_);
  for (const hold& h : holds_) {
    residency held{h.tensor, value_of(h.from, r.timeline), 0};
    for (const moment& m : h.until) held.end = std::max(held.end, value_of(m, r.timeline));
    r.held.push_back(held);
  }
  return r;
}

}  // namespace schedules
