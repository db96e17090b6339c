// Streams.

#include <algorithm>

#include <hostoffload/virtual_gpu/detail/enqueue.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

cudaError_t create(function_id& f, cudaStream_t* out, unsigned flags, int priority) {
  return call(f, &host_costs::create, [&](const context& c) -> cudaError_t {
    if (out == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) return cudaErrorInvalidValue;
    // "If the priority is outside the range, it is clamped."
    const auto [s, handle] = c.gpu.create_stream(c.thread.device, flags, std::clamp(priority, -5, 0));
    s->call = c.gpu.calls;
    *out = handle;
    return cudaSuccess;
  });
}

/// For those who only ask what the stream is.
template <typename Body>
cudaError_t of_stream(function_id& f, cudaStream_t handle, Body body) {
  return call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    const stream* s = c.gpu.known_stream(handle, c.thread);
    return s == nullptr ? cudaErrorInvalidResourceHandle : body(c, *s);
  });
}

template <typename Body>
cudaError_t with_stream(function_id& f, double host_costs::*cost, cudaStream_t handle, Body body) {
  return call(f, cost, [&](const context& c) -> cudaError_t {
    stream* s = c.gpu.find_stream(handle, c.thread);
    return s == nullptr ? cudaErrorInvalidResourceHandle : body(c, *s);
  });
}

}  // namespace

void enqueue_host_call(const context& c, const host_call& what, stream& s) {
  hostoffload_kernel kernel{};
  kernel.closure_bytes = sizeof what;
  kernel.closure_align = alignof(host_call);
  kernel.closure = &what;
  kernel.copy = [](void* to, const void* from) { ::new (to) host_call(*static_cast<const host_call*>(from)); };
  kernel.run = [](void* at) { static_cast<const host_call*>(at)->function(static_cast<const host_call*>(at)->data); };
  pending_operation& op = c.gpu.begin(s, operation_kind::host_function, c.name, c.thread);
  op.delay += c.gpu.model.host_function.value;
  op.does.kind = effect::action::run;
  op.does.code.assign(kernel);
  c.gpu.enqueue(op);
}

// NOLINTBEGIN(readability-identifier-naming): parameters are named as in CUDA's header
extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* pStream) {
  static function_id f("cudaStreamCreate");
  return create(f, pStream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  static function_id f("cudaStreamCreateWithFlags");
  return create(f, pStream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int priority) {
  static function_id f("cudaStreamCreateWithPriority");
  return create(f, pStream, flags, priority);
}

// Does not wait: what was enqueued still happens.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  static function_id f("cudaStreamDestroy");
  return with_stream(f, &host_costs::create, stream, [&](const context& c, const auto& s) -> cudaError_t {
    if (s.implicit) return cudaErrorInvalidResourceHandle;
    platform::refuse_if_captured(s);
    c.gpu.destroy_stream(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  static function_id f("cudaStreamSynchronize");
  return with_stream(f, &host_costs::synchronise, stream, [](const context& c, auto& s) -> cudaError_t {
    platform::refuse_if_captured(s);
    c.gpu.wait_for(s, c.thread);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  static function_id f("cudaStreamQuery");
  return with_stream(f, &host_costs::query, stream, [](const context& c, const auto& s) -> cudaError_t {
    platform::refuse_if_captured(s);
    return c.gpu.is_done(s, c.thread) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  static function_id f("cudaStreamWaitEvent");
  return with_stream(f, &host_costs::wait, stream, [&](const context& c, auto& s) -> cudaError_t {
    if ((flags & ~unsigned{cudaEventWaitExternal}) != 0) return cudaErrorInvalidValue;
    const auto* e = c.gpu.events.find(event);
    access who = c.gpu.access_of_host(c.name);
    if (e == nullptr) {
      c.gpu.detect.report(
          finding_kind::bad_wait, who,
          "waits on stream " + std::to_string(s.number) + " for an event that does not exist, or no longer");
      return cudaErrorInvalidResourceHandle;
    }
    const bool captured = s.captured_by != nullptr || e->captured_in != 0;
    if (captured && flags != 0) platform::refuse_if_captured(s);
    if (captured && c.gpu.faults.watching() && c.gpu.faults.on_wait(s, *e, c.gpu.calls, platform::depends_on(s, *e))) {
      return cudaSuccess;
    }
    if (captured) {
      c.gpu.wait_in_capture(s, *e);
      return cudaSuccess;
    }
    if (!e->recorded) {
      c.gpu.detect.report(finding_kind::never_recorded_wait, who,
                          "on stream " + std::to_string(s.number) + " waits for event " + std::to_string(e->number) +
                              " (call #" + std::to_string(e->call) + "), which was never recorded: it does not wait");
      return cudaSuccess;
    }
    if (c.gpu.faults.watching() && c.gpu.faults.on_wait(s, *e, c.gpu.calls, c.gpu.is_behind(s, *e))) return cudaSuccess;
    s.clock.join(e->clock);
    pending_operation& op = c.gpu.begin(s, operation_kind::wait, c.name, c.thread);
    op.waits_for = e->recorded_by;
    simulator::block(op, e->pending);
    c.gpu.enqueue(op);
    return cudaSuccess;
  });
}

// The function runs on the thread that drives the simulation when the stream comes to it, so it must not wait for
// another thread that is itself inside the API.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  static function_id f("cudaLaunchHostFunc");
  return with_stream(f, &host_costs::launch, stream, [&](const context& c, auto& s) -> cudaError_t {
    if (fn == nullptr) return cudaErrorInvalidValue;
    const host_call what{fn, userData};
    if (s.captured_by != nullptr) {
      c.gpu.collect(s, c.name, what);
    } else {
      enqueue_host_call(c, what, s);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int* flags) {
  static function_id f("cudaStreamGetFlags");
  return of_stream(f, hStream, [&](const context&, const auto& s) -> cudaError_t {
    if (flags == nullptr) return cudaErrorInvalidValue;
    *flags = s.flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int* priority) {
  static function_id f("cudaStreamGetPriority");
  return of_stream(f, hStream, [&](const context&, const auto& s) -> cudaError_t {
    if (priority == nullptr) return cudaErrorInvalidValue;
    *priority = s.priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int* device) {
  static function_id f("cudaStreamGetDevice");
  return of_stream(f, hStream, [&](const context&, const auto& s) -> cudaError_t {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = s.device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long* streamId) {
  static function_id f("cudaStreamGetId");
  return of_stream(f, hStream, [&](const context&, const auto& s) -> cudaError_t {
    if (streamId == nullptr) return cudaErrorInvalidValue;
    *streamId = s.number;
    return cudaSuccess;
  });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace hostoffload::inline v0::virtual_gpu::detail
