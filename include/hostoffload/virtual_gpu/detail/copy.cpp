// Which copies the host waits for: CUDA Runtime API, "API synchronization behavior".

#include <hostoffload/virtual_gpu/detail/copy.hpp>

#include <algorithm>
#include <cstring>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

/// One end of a copy. No allocation: pageable host memory.
struct place {
  std::byte* at = nullptr;
  std::size_t width = 0, rows = 1, pitch = 0;
  allocation* in = nullptr;

  place(const void* begin, std::size_t row_bytes, std::size_t row_count, std::size_t row_pitch)
      : at(static_cast<std::byte*>(const_cast<void*>(begin))),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
        width(row_bytes),
        rows(row_count),
        pitch(row_pitch) {
    if (pitch != width && rows > 1) return;
    width *= rows;
    rows = 1;
  }

  [[nodiscard]] bool on_device() const { return in != nullptr && in->on_device(); }
  [[nodiscard]] bool pageable() const { return in == nullptr; }
  [[nodiscard]] std::size_t span() const { return (rows - 1) * pitch + width; }

  /// Calls `visit(begin, end)` for each row, as offsets into the allocation.
  template <typename Visitor>
  void each_row(Visitor visit) const {
    auto begin = static_cast<std::size_t>(at - in->begin);
    for (std::size_t row = 0; row < rows; ++row, begin += pitch) visit(begin, begin + width);
  }
};

// False, with a finding, where the bytes are not all in one allocation, or in one that is gone.
bool locate(const context& c, place& p) {
  const bool known = c.gpu.memory.find(p.at) != nullptr || c.gpu.memory.find_former(p.at) != nullptr;
  if (!known) return true;
  p.in = c.gpu.detect.locate(c.gpu.access_of_host(c.name), p.at, p.span(), false);
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

bool stored(const context& c, const place& p) {
  bool all = true;
  if (c.gpu.dry && !p.pageable()) {
    p.each_row([&](std::size_t begin, std::size_t end) { all = all && c.gpu.stored(*p.in, begin, end - begin); });
  }
  return all;
}

void touch_device(const context& c, pending_operation& op, const place& p) {
  if (!address_sanitizer || c.gpu.dry || !p.on_device()) return;
  p.each_row([&](std::size_t begin, std::size_t end) { op.does.ranges.push_back({p.in->begin + begin, end - begin}); });
}

void look(const context& c, const pending_operation& op, const stream& s, const place& p, bool write) {
  if (p.pageable()) return;
  const access who = platform::access_of(op);
  p.each_row([&](std::size_t begin, std::size_t end) {
    if (write) {
      c.gpu.detect.write(who, s.clock, *p.in, begin, end);
    } else {
      c.gpu.detect.read(who, s.clock, *p.in, begin, end);
    }
  });
}

void look_by_host(const context& c, const place& p, bool write) {
  if (p.pageable()) return;
  const access who = c.gpu.access_of_host(c.name);
  p.each_row([&](std::size_t begin, std::size_t end) {
    if (write) {
      c.gpu.detect.host_write(who, c.gpu.host_clock(), *p.in, begin, end);
    } else {
      c.gpu.detect.host_read(who, c.gpu.host_clock(), *p.in, begin, end);
    }
  });
}

void set_rows(effect& e, const copy_request& r) {
  e.kind = effect::action::copy;
  e.to = static_cast<std::byte*>(r.to);
  e.from = static_cast<const std::byte*>(r.from);
  e.count = r.width;
  e.rows = r.rows;
  e.to_pitch = r.to_pitch;
  e.from_pitch = r.from_pitch;
}

// To a staging buffer.
void stage(effect& e) {
  e.staged.resize(e.rows * e.count);
  for (std::size_t row = 0; row < e.rows; ++row) {
    std::memcpy(e.staged.data() + row * e.count, e.from + row * e.from_pitch, e.count);
  }
  e.from = nullptr;
  e.from_pitch = e.count;
}

void copy_on_host(const context& c, const copy_request& r, const place& to, const place& from, stream& s) {
  c.gpu.wait_for(s, c.thread);
  look_by_host(c, from, false);
  look_by_host(c, to, true);
  if (stored(c, to) && stored(c, from)) {
    effect e;
    set_rows(e, r);
    e.perform();
  }
  c.spend(static_cast<double>(r.width * r.rows) / c.gpu.model.host.pageable.value);
}

void enqueue_copy(const context& c, const copy_request& r, const place& to, const place& from, stream& s) {
  const std::size_t bytes = r.width * r.rows;
  const auto size = static_cast<double>(bytes);
  const auto direction = !from.on_device() ? direction::to_device
                         : !to.on_device() ? direction::to_host
                                           : direction::on_device;
  constexpr operation_kind kinds[] = {operation_kind::copy_to_device, operation_kind::copy_to_host,
                                      operation_kind::copy_on_device};
  constexpr resource uses[] = {resource::copy_engine_to_device, resource::copy_engine_to_host, resource::memory};
  const auto d = static_cast<std::size_t>(direction);
  const bool staged = from.pageable() || (r.at_once && !from.on_device());

  if (staged) {
    look_by_host(c, from, false);
    c.spend(size / c.gpu.model.host.pageable.value);
  }
  pending_operation& op = c.gpu.begin(s, kinds[d], c.name, c.thread);
  op.uses = uses[d];
  op.bytes = size;
  op.to = r.to;
  op.from = r.from;
  op.batched = r.batched;
  if (stored(c, to) && stored(c, from)) {
    set_rows(op.does, r);
    if (staged) stage(op.does);
  }
  if (direction != direction::on_device) {
    op.link_bytes = size;
  } else if (to.in->device == from.in->device) {
    op.memory_bytes = 2 * size;
  } else {
    op.memory_bytes = size;
    op.least_seconds = size / c.gpu.model.peer.value;
  }
  touch_device(c, op, to);
  touch_device(c, op, from);
  if (!staged) look(c, op, s, from, false);
  look(c, op, s, to, true);
  ++c.gpu.copies[d].copies;
  c.gpu.copies[d].bytes += bytes;
  c.gpu.enqueue(op);
}

cudaError_t examine(const context& c, const copy_request& r, place& to, place& from) {
  if (r.kind < cudaMemcpyHostToHost || r.kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (r.rows > 1 && (r.width > r.to_pitch || r.width > r.from_pitch)) return cudaErrorInvalidPitchValue;
  if (r.width == 0 || r.rows == 0) return cudaSuccess;
  if (r.to == nullptr || r.from == nullptr) return cudaErrorInvalidValue;
  if (!locate(c, to) || !locate(c, from) || !matches(r.kind, to, from)) return cudaErrorInvalidValue;
  return cudaSuccess;
}

}  // namespace

cudaError_t check_copy(const context& c, const copy_request& r) {
  place to(r.to, r.width, r.rows, r.to_pitch);
  place from(r.from, r.width, r.rows, r.from_pitch);
  return examine(c, r, to, from);
}

cudaError_t copy(const context& c, const copy_request& r, stream* s) {
  if (s == nullptr) return cudaErrorInvalidResourceHandle;
  place to(r.to, r.width, r.rows, r.to_pitch);
  place from(r.from, r.width, r.rows, r.from_pitch);
  const cudaError_t error = examine(c, r, to, from);
  if (error != cudaSuccess || r.width == 0 || r.rows == 0) return error;

  if (s->captured_by != nullptr) {
    // Pageable memory would be read or written at the call, which no launch repeats.
    if (r.synchronous || to.pageable() || from.pageable() || (!to.on_device() && !from.on_device())) {
      platform::refuse_if_captured(*s);
    }
    c.gpu.collect(*s, c.name, r);
    return cudaSuccess;
  }
  if (!to.on_device() && !from.on_device()) {
    copy_on_host(c, r, to, from, *s);
    return cudaSuccess;
  }
  if (r.synchronous && from.pageable()) c.gpu.wait_for(*s, c.thread);
  enqueue_copy(c, r, to, from, *s);
  const bool waits = to.pageable() || (r.synchronous && !from.pageable() && !(to.on_device() && from.on_device()));
  if (waits) c.gpu.wait_for(*s, c.thread);
  if (to.pageable()) c.spend(static_cast<double>(r.width * r.rows) / c.gpu.model.host.pageable.value);
  return cudaSuccess;
}

cudaError_t set(const context& c, const set_request& r, stream* s) {
  if (s == nullptr) return cudaErrorInvalidResourceHandle;
  if (r.rows > 1 && r.width > r.pitch) return cudaErrorInvalidPitchValue;
  if (r.width == 0 || r.rows == 0) return cudaSuccess;
  place to(r.to, r.width, r.rows, r.pitch);
  if (r.to == nullptr || !locate(c, to) || to.pageable()) return cudaErrorInvalidValue;
  if (s->captured_by != nullptr) {
    if (r.synchronous && !to.on_device()) platform::refuse_if_captured(*s);
    c.gpu.collect(*s, c.name, r);
    return cudaSuccess;
  }
  pending_operation& op = c.gpu.begin(*s, operation_kind::set, c.name, c.thread);
  op.uses = resource::memory;
  op.bytes = static_cast<double>(r.width * r.rows);
  op.memory_bytes = op.bytes;
  if (stored(c, to)) {
    op.does.kind = effect::action::set;
    op.does.to = to.at;
    op.does.value = r.value;
    op.does.count = to.width;
    op.does.rows = to.rows;
    op.does.to_pitch = to.pitch;
  }
  touch_device(c, op, to);
  look(c, op, *s, to, true);
  c.gpu.enqueue(op);
  if (r.synchronous && !to.on_device()) c.gpu.wait_for(*s, c.thread);
  return cudaSuccess;
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
