// Events.

#include <algorithm>

#include <hostoffload/virtual_gpu/detail/call.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

using event_state = detail::event;

constexpr unsigned event_flags = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;

cudaError_t create(function_id& f, cudaEvent_t* out, unsigned flags) {
  return call(f, &host_costs::create, [&](const context& c) -> cudaError_t {
    if (out == nullptr || (flags & ~event_flags) != 0) return cudaErrorInvalidValue;
    if ((flags & cudaEventInterprocess) != 0) return cudaErrorNotSupported;
    const auto [e, handle] = c.gpu.events.add();
    e->flags = flags;
    e->device = c.thread.device;
    e->number = ++c.gpu.serial;
    e->call = c.gpu.calls;
    *out = handle;
    return cudaSuccess;
  });
}

template <typename Body>
cudaError_t with_event(function_id& f, double host_costs::*cost, cudaEvent_t handle, Body body) {
  return call(f, cost, [&](const context& c) -> cudaError_t {
    event_state* e = c.gpu.events.find(handle);
    if (e != nullptr) {
      c.gpu.require(e->device);
      return body(c, *e);
    }
    c.gpu.detect.report(finding_kind::bad_wait, c.gpu.access_of_host(c.name),
                        "uses an event that does not exist, or no longer");
    return cudaErrorInvalidResourceHandle;
  });
}

cudaError_t record(function_id& f, cudaEvent_t handle, cudaStream_t stream, unsigned flags) {
  return with_event(f, &host_costs::record, handle, [&](const context& c, event_state& e) -> cudaError_t {
    if ((flags & ~unsigned{cudaEventRecordExternal}) != 0) return cudaErrorInvalidValue;
    auto* s = c.gpu.find_stream(stream, c.thread);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    if (s->device != e.device) {
      c.gpu.detect.report(finding_kind::bad_wait, c.gpu.access_of_host(c.name),
                          "records an event of device " + std::to_string(e.device) + " on stream " +
                              std::to_string(s->number) + " of device " + std::to_string(s->device));
      return cudaErrorInvalidResourceHandle;
    }
    if (s->captured_by != nullptr) {
      if (flags != 0) platform::refuse_if_captured(*s);
      c.gpu.record_in_capture(*s, e);
      return cudaSuccess;
    }
    e.captured_in = 0;
    pending_operation& op = c.gpu.begin(*s, operation_kind::record, c.name, c.thread);
    // Waits for an earlier record keep it; only the event itself forgets.
    if (e.pending != nullptr) e.pending->marks = nullptr;
    e.pending = &op;
    e.recorded = true;
    e.clock = s->clock;
    e.in_lane = s->in_lane;
    e.anchor = s->anchor;
    e.stream = s->number;
    e.recorded_by = op.call;
    op.marks = &e;
    c.gpu.enqueue(op);
    return cudaSuccess;
  });
}

/// Complete as far as the thread's clock can tell.
bool is_done(const event_state& e, const thread_state& t) { return e.pending == nullptr && e.time <= t.clock; }

}  // namespace

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  static function_id f("cudaEventCreate");
  return create(f, event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  static function_id f("cudaEventCreateWithFlags");
  return create(f, event, flags);
}

// Does not wait; waits already enqueued stay.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  static function_id f("cudaEventDestroy");
  return with_event(f, &host_costs::create, event, [&](const context& c, event_state& e) -> cudaError_t {
    if (e.pending != nullptr) e.pending->marks = nullptr;
    static_cast<void>(c.gpu.events.remove(event));
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  static function_id f("cudaEventRecord");
  return record(f, event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  static function_id f("cudaEventRecordWithFlags");
  return record(f, event, stream, flags);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  static function_id f("cudaEventQuery");
  return with_event(f, &host_costs::query, event, [](const context& c, const event_state& e) -> cudaError_t {
    c.gpu.refuse_if_captured(e);
    if (!e.recorded) return cudaSuccess;
    if (!is_done(e, c.thread)) return cudaErrorNotReady;
    c.gpu.know(e.clock);
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  static function_id f("cudaEventSynchronize");
  return with_event(f, &host_costs::synchronise, event, [](const context& c, const event_state& e) -> cudaError_t {
    c.gpu.refuse_if_captured(e);
    if (!e.recorded) {
      c.gpu.detect.report(finding_kind::never_recorded_wait, c.gpu.access_of_host(c.name),
                          "waits for event " + std::to_string(e.number) + " (call #" + std::to_string(e.call) +
                              "), which was never recorded: it does not wait");
      return cudaSuccess;
    }
    c.gpu.simulation.advance_until([&e] { return e.pending == nullptr; });
    c.thread.clock = std::max(c.thread.clock, e.time);
    c.gpu.know(e.clock);
    c.gpu.trim_after_synchronising();
    return cudaSuccess;
  });
}

// Not recorded, or without timing: cudaErrorInvalidResourceHandle; not complete: cudaErrorNotReady.
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  static function_id f("cudaEventElapsedTime");
  return with_event(f, &host_costs::query, start, [&](const context& c, const event_state& from) -> cudaError_t {
    const event_state* to = c.gpu.events.find(end);
    if (to == nullptr) return cudaErrorInvalidResourceHandle;
    if (ms == nullptr) return cudaErrorInvalidValue;
    for (const event_state* e : {&from, to}) c.gpu.refuse_if_captured(*e);
    if (!from.recorded || !to->recorded) return cudaErrorInvalidResourceHandle;
    if (((from.flags | to->flags) & cudaEventDisableTiming) != 0) return cudaErrorInvalidResourceHandle;
    if (from.device != to->device) return cudaErrorInvalidResourceHandle;
    if (!is_done(from, c.thread) || !is_done(*to, c.thread)) return cudaErrorNotReady;
    *ms = static_cast<float>((to->time - from.time) * 1e3);
    return cudaSuccess;
  });
}

}  // extern "C"

}  // namespace hostoffload::inline v0::virtual_gpu::detail
