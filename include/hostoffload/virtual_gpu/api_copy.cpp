// Copies and memsets. Which of them the host waits for: CUDA Runtime API, "API synchronization behavior".

#include <cstring>

#include <hostoffload/virtual_gpu/detail/call.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

/// One end of a copy. No allocation: pageable host memory.
struct place {
  std::byte* at = nullptr;
  allocation* in = nullptr;

  [[nodiscard]] bool on_device() const { return in != nullptr && in->on_device(); }
  [[nodiscard]] bool pageable() const { return in == nullptr; }
  [[nodiscard]] std::size_t offset() const { return static_cast<std::size_t>(at - in->begin); }
};

// False, with a finding, where the bytes are not all in one allocation, or in one that is gone.
bool locate(const context& c, place& p, const void* at, std::size_t bytes) {
  p.at = static_cast<std::byte*>(const_cast<void*>(at));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  const bool known = c.gpu.memory.find(at) != nullptr || c.gpu.memory.find_former(at) != nullptr;
  if (!known) return true;
  p.in = c.gpu.detect.locate(c.gpu.access_of_host(c.name), at, bytes, false);
  return p.in != nullptr;
}

bool matches(cudaMemcpyKind kind, const place& to, const place& from) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to.on_device() && !from.on_device();
    case cudaMemcpyHostToDevice:
      return to.on_device() && !from.on_device();
    case cudaMemcpyDeviceToHost:
      return !to.on_device() && from.on_device();
    case cudaMemcpyDeviceToDevice:
      return to.on_device() && from.on_device();
    default:
      return true;
  }
}

bool stored(const context& c, const place& p, std::size_t bytes) {
  return p.pageable() || c.gpu.stored(*p.in, p.offset(), bytes);
}

void touch_device(const context& c, pending_operation& op, const place& p, std::size_t bytes) {
  if (address_sanitizer && !c.gpu.dry && p.on_device()) op.does.ranges.push_back({p.at, bytes});
}

void copy_on_host(const context& c, const place& to, const place& from, std::size_t bytes, stream& s) {
  c.gpu.wait_for(s, c.thread);
  const access who = c.gpu.access_of_host(c.name);
  if (!from.pageable()) c.gpu.detect.host_read(who, c.gpu.host_clock(), *from.in, from.offset(), from.offset() + bytes);
  if (!to.pageable()) c.gpu.detect.host_write(who, c.gpu.host_clock(), *to.in, to.offset(), to.offset() + bytes);
  if (stored(c, to, bytes) && stored(c, from, bytes)) std::memmove(to.at, from.at, bytes);
  c.spend(static_cast<double>(bytes) / c.gpu.model.host.pageable.value);
}

void enqueue_copy(const context& c, const place& to, const place& from, std::size_t bytes, stream& s) {
  const auto size = static_cast<double>(bytes);
  const auto direction = !from.on_device() ? direction::to_device
                         : !to.on_device() ? direction::to_host
                                           : direction::on_device;
  constexpr operation_kind kinds[] = {operation_kind::copy_to_device, operation_kind::copy_to_host,
                                      operation_kind::copy_on_device};
  constexpr resource uses[] = {resource::copy_engine_to_device, resource::copy_engine_to_host, resource::memory};
  const auto d = static_cast<std::size_t>(direction);

  if (from.pageable()) c.spend(size / c.gpu.model.host.pageable.value);  // to a staging buffer
  pending_operation& op = c.gpu.begin(s, kinds[d], c.name, c.thread);
  op.uses = uses[d];
  op.bytes = size;
  if (stored(c, to, bytes) && stored(c, from, bytes)) {
    op.does.kind = effect::action::copy;
    op.does.count = bytes;
    op.does.to = to.at;
    if (from.pageable()) {
      op.does.staged.assign(from.at, from.at + bytes);
    } else {
      op.does.from = from.at;
    }
  }
  if (direction != direction::on_device) {
    op.link_bytes = size;
  } else if (to.in->device == from.in->device) {
    op.memory_bytes = 2 * size;
  } else {
    op.memory_bytes = size;
    op.least_seconds = size / c.gpu.model.peer.value;
  }
  touch_device(c, op, to, bytes);
  touch_device(c, op, from, bytes);
  const access who = platform::access_of(op);
  if (!from.pageable()) c.gpu.detect.read(who, s.clock, *from.in, from.offset(), from.offset() + bytes);
  if (!to.pageable()) c.gpu.detect.write(who, s.clock, *to.in, to.offset(), to.offset() + bytes);
  ++c.gpu.copies[d].copies;
  c.gpu.copies[d].bytes += bytes;
  c.gpu.enqueue(op);
}

cudaError_t copy(const context& c, void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind, stream* s,
                 bool synchronous) {
  if (s == nullptr) return cudaErrorInvalidResourceHandle;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (bytes == 0) return cudaSuccess;
  if (dst == nullptr || src == nullptr) return cudaErrorInvalidValue;
  place to;
  place from;
  if (!locate(c, to, dst, bytes) || !locate(c, from, src, bytes)) return cudaErrorInvalidValue;
  if (!matches(kind, to, from)) return cudaErrorInvalidValue;

  if (!to.on_device() && !from.on_device()) {
    copy_on_host(c, to, from, bytes, *s);
    return cudaSuccess;
  }
  if (synchronous && from.pageable()) c.gpu.wait_for(*s, c.thread);
  enqueue_copy(c, to, from, bytes, *s);
  const bool staged = from.pageable();
  const bool waits = to.pageable() || (synchronous && !staged && !(to.on_device() && from.on_device()));
  if (waits) c.gpu.wait_for(*s, c.thread);
  if (to.pageable()) c.spend(static_cast<double>(bytes) / c.gpu.model.host.pageable.value);
  return cudaSuccess;
}

cudaError_t set(const context& c, void* at, int value, std::size_t bytes, stream* s, bool synchronous) {
  if (s == nullptr) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  place to;
  if (at == nullptr || !locate(c, to, at, bytes) || to.pageable()) return cudaErrorInvalidValue;
  pending_operation& op = c.gpu.begin(*s, operation_kind::set, c.name, c.thread);
  op.uses = resource::memory;
  op.bytes = static_cast<double>(bytes);
  op.memory_bytes = op.bytes;
  if (stored(c, to, bytes)) op.does.kind = effect::action::set;
  op.does.to = to.at;
  op.does.value = value;
  op.does.count = bytes;
  touch_device(c, op, to, bytes);
  c.gpu.detect.write(platform::access_of(op), s->clock, *to.in, to.offset(), to.offset() + bytes);
  c.gpu.enqueue(op);
  if (synchronous && !to.on_device()) c.gpu.wait_for(*s, c.thread);
  return cudaSuccess;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): parameters are named as in CUDA's header
extern "C" {

cudaError_t cudaMemcpy(void* dst, const void* src, std::size_t count, cudaMemcpyKind kind) {
  static function_id f("cudaMemcpy");
  return call(f, &host_costs::copy, [&](const context& c) {
    return copy(c, dst, src, count, kind, c.gpu.find_stream(nullptr, c.thread), true);
  });
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  static function_id f("cudaMemcpyAsync");
  return call(f, &host_costs::copy, [&](const context& c) {
    return copy(c, dst, src, count, kind, c.gpu.find_stream(stream, c.thread), false);
  });
}

cudaError_t cudaMemset(void* devPtr, int value, std::size_t count) {
  static function_id f("cudaMemset");
  return call(f, &host_costs::copy, [&](const context& c) {
    return set(c, devPtr, value, count, c.gpu.find_stream(nullptr, c.thread), true);
  });
}

cudaError_t cudaMemsetAsync(void* devPtr, int value, std::size_t count, cudaStream_t stream) {
  static function_id f("cudaMemsetAsync");
  return call(f, &host_costs::copy, [&](const context& c) {
    return set(c, devPtr, value, count, c.gpu.find_stream(stream, c.thread), false);
  });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace hostoffload::inline v0::virtual_gpu::detail
