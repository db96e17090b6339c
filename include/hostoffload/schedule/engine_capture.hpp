#pragma once
// Steps as CUDA graphs. Part of engine.hpp.
//
// A graph begins and ends on the compute stream. Before the capture, and before each launch, the compute stream goes
// behind all that other streams were given; so within the capture everything from before counts as done, and the copy
// streams join it where they first wait for something of it. After the capture, and in the first step after a launch,
// everything counts as done for whoever is behind the compute stream's next point: events that the capture recorded are
// never waited for outside.

#include <hostoffload/schedule/engine.hpp>

namespace hostoffload::inline v0::detail {

/// Puts the compute stream behind all that the other streams were given. That holds even where no graph comes of it.
inline void engine::join_streams() {
  tape_.interrupt();
  stream_clock all;
  for (std::size_t s = 0; s < order_.count(); ++s) {
    if (s != compute_id) all.join(static_cast<stream_id>(s), order_.end_point(static_cast<stream_id>(s)));
  }
  order_.put_behind(compute_id, all);
}

/// Whoever uses a slot from now on goes behind the compute stream, and behind nothing else of before.
inline void engine::begin_order_anew() noexcept {
  tape_.interrupt();
  order_.begin_anew();
  stream_clock now;
  now.join(compute_id, order_.next_point(compute_id));
  if (window_) window_->all_behind(now);
  device_->all_behind(now);
  host_->all_behind(now);
  for (tensor_record* r : tensors_) {
    r->written = r->readers = {};
    r->host_written = r->host_read = now;
  }
  order_is_old_ = false;
}

inline void engine::begin_capture() {
  if (is_legacy_default(compute())) {
    throw usage_error(
        "the legacy default stream cannot be captured: give the scheduler a compute stream of its own "
        "(cudaStreamCreateWithFlags, cudaStreamNonBlocking)");
  }
  prepare_step();
  if (order_is_old_) begin_order_anew();
  join_streams();
  check(cudaStreamBeginCapture(compute(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture",
        {{}, 0, order_.name(compute_id)});
  capturing_ = true;
  begin_order_anew();
  begin_counting();
}

/// The step is over and nobody has launched it. Throws what end_step would, and cuda_error, then without a graph.
inline captured_step engine::end_capture() {
  throw_if_closed();
  try {
    finish_step();
    join_streams();
    executable_graph made = executable_graph::end_capture(compute(), {{}, 0, order_.name(compute_id)});
    capturing_ = false;
    begin_order_anew();
    return captured_step{std::move(made), now_, layout_};
  } catch (...) {
    discard_capture();
    throw;
  }
}

inline void engine::discard_capture() noexcept {
  capturing_ = false;
  auto status = cudaStreamCaptureStatusActive;
  for (int tries = 0; tries < 2 && status != cudaStreamCaptureStatusNone; ++tries) {  // an end may fail by itself
    cudaGraph_t graph = nullptr;
    ignore(cudaStreamIsCapturing(compute(), &status));
    if (status == cudaStreamCaptureStatusNone) break;
    ignore(cudaStreamEndCapture(compute(), &graph));
    if (graph != nullptr) ignore(cudaGraphDestroy(graph));
  }
  begin_order_anew();
}

inline void engine::launch(captured_step& step) {
  throw_if_closed();
  throw_kept_error();
  if (in_step_) throw usage_error("a captured step is launched while another step of the same scheduler runs");
  if (step.layout != layout_) {
    throw stale_graph_error("the captured step is stale: " + std::string(layout_changed_by_) +
                            " since it was captured; capture it again");
  }
  join_streams();
  observe_all_slots(options_.observer.taken);
  step.graph.launch(compute(), {{}, 0, order_.name(compute_id)});
  observe_all_slots(options_.observer.given_back);
  order_is_old_ = true;
  has_launched_ = true;
  step.report.step = ++steps_;
  ++step.report.replays;
  history_->begin(steps_, false, compute());
  history_->end(step.report, compute());
}

/// What the graph does with slots is its own affair: to an observer it has them all.
inline void engine::observe_all_slots(void (*told)(void*, std::size_t)) const {
  if (told == nullptr) return;
  if (window_) window_->each([told](const slot& s) { told(s.begin, s.bytes); });
  device_->each([told](const slot& s) { told(s.begin, s.bytes); });
}

inline void engine::invalidate_graphs(std::string_view why) noexcept {
  ++layout_;
  tape_.forget();
  layout_changed_by_ = why;
}

}  // namespace hostoffload::inline v0::detail
