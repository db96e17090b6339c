// Pinned host memory.

#include <hostoffload/virtual_gpu/detail/call.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

constexpr unsigned alloc_flags = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
constexpr unsigned register_flags =
    cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;

// Pinning and unpinning wait for the devices in practice. CUDA does not promise it, so no order follows for the
// detector.
void wait_for_all(const context& c) {
  double end = c.thread.clock;
  for (int d = 0; d < c.gpu.device_count(); ++d) {
    for (stream* s : c.gpu.on(d).streams) {
      c.gpu.simulation.advance_until([s] { return s->done == s->tick; });
      end = std::max(end, s->last_end);
    }
  }
  c.spend(end - c.thread.clock);
}

cudaError_t allocate(const context& c, void** out, std::size_t bytes, unsigned flags) {
  if (out == nullptr || (flags & ~alloc_flags) != 0) return cudaErrorInvalidValue;
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  wait_for_all(c);
  *out = c.gpu.allocate_pinned(bytes, c.name, flags, c.thread.device);
  if (*out == nullptr) return cudaErrorMemoryAllocation;
  c.spend(static_cast<double>(bytes) / c.gpu.model.host.pin_fresh.value);
  return cudaSuccess;
}

// The host gives memory back: as if it wrote all of it.
void check_idle(const context& c, allocation& a) {
  c.gpu.detect.free(c.gpu.access_of_host(c.name), c.gpu.host_clock(), a);
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): parameters are named as in CUDA's header
extern "C" {

cudaError_t cudaHostAlloc(void** pHost, std::size_t size, unsigned int flags) {
  static function_id f("cudaHostAlloc");
  return call(f, &host_costs::allocate, [&](const context& c) { return allocate(c, pHost, size, flags); });
}

cudaError_t cudaMallocHost(void** ptr, std::size_t size) {
  static function_id f("cudaMallocHost");
  return call(f, &host_costs::allocate, [&](const context& c) { return allocate(c, ptr, size, cudaHostAllocDefault); });
}

cudaError_t cudaFreeHost(void* ptr) {
  static function_id f("cudaFreeHost");
  return call(f, &host_costs::allocate, [&](const context& c) -> cudaError_t {
    if (ptr == nullptr) return cudaSuccess;
    allocation* a = c.gpu.memory.find(ptr);
    if (a == nullptr || a->kind != memory_kind::pinned || a->begin != ptr) {
      c.gpu.detect.report(finding_kind::bad_free, c.gpu.access_of_host(c.name),
                          a == nullptr ? "frees what is no pinned memory, or no longer"
                                       : "is not the function that frees " + c.gpu.detect.describe(*a));
      return cudaErrorInvalidValue;
    }
    check_idle(c, *a);
    wait_for_all(c);
    c.gpu.free_pinned(*a);
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* ptr, std::size_t size, unsigned int flags) {
  static function_id f("cudaHostRegister");
  return call(f, &host_costs::allocate, [&](const context& c) -> cudaError_t {
    if (ptr == nullptr || size == 0 || (flags & ~register_flags) != 0) return cudaErrorInvalidValue;
    auto* begin = static_cast<std::byte*>(ptr);
    if (c.gpu.memory.overlaps(begin, size)) return cudaErrorHostMemoryAlreadyRegistered;
    if (!c.gpu.pin(size)) return cudaErrorMemoryAllocation;
    allocation a;
    a.begin = begin;
    a.bytes = size;
    a.kind = memory_kind::registered;
    a.device = c.thread.device;
    a.flags = flags;
    a.call = c.gpu.calls;
    a.function = c.name;
    a.pieces = shadow(size, true, access{});
    c.gpu.memory.add(std::move(a));
    c.spend(static_cast<double>(size) / c.gpu.model.host.pin_touched.value);
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* ptr) {
  static function_id f("cudaHostUnregister");
  return call(f, &host_costs::allocate, [&](const context& c) -> cudaError_t {
    allocation* a = c.gpu.memory.find(ptr);
    if (a == nullptr || a->kind != memory_kind::registered || a->begin != ptr) return cudaErrorHostMemoryNotRegistered;
    check_idle(c, *a);
    wait_for_all(c);
    c.gpu.order_of_effects.finish_all();
    c.gpu.pinned_used -= a->bytes;
    c.gpu.memory.remove(*a, 0);
    return cudaSuccess;
  });
}

// One address space: the device reaches pinned memory at the host's address.
cudaError_t cudaHostGetDevicePointer(void** pDevice, void* pHost, unsigned int flags) {
  static function_id f("cudaHostGetDevicePointer");
  return call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    if (pDevice == nullptr || flags != 0) return cudaErrorInvalidValue;
    const allocation* a = c.gpu.memory.find(pHost);
    *pDevice = nullptr;
    if (a == nullptr || a->on_device()) return cudaErrorInvalidValue;
    *pDevice = pHost;
    return cudaSuccess;
  });
}

// Of allocated memory; registered memory has no such flags.
cudaError_t cudaHostGetFlags(unsigned int* pFlags, void* pHost) {
  static function_id f("cudaHostGetFlags");
  return call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    const allocation* a = c.gpu.memory.find(pHost);
    if (pFlags == nullptr || a == nullptr || a->kind != memory_kind::pinned) return cudaErrorInvalidValue;
    *pFlags = a->flags | cudaHostAllocMapped;  // with one address space all of it is mapped
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* ptr) {
  static function_id f("cudaPointerGetAttributes");
  return call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    *attributes = {};
    auto* at = const_cast<void*>(ptr);  // NOLINT(cppcoreguidelines-pro-type-const-cast): as CUDA does
    const allocation* a = c.gpu.memory.find(ptr);
    attributes->type = a == nullptr     ? cudaMemoryTypeUnregistered
                       : a->on_device() ? cudaMemoryTypeDevice
                                        : cudaMemoryTypeHost;
    attributes->device = a == nullptr ? cudaInvalidDeviceId : a->device;
    attributes->devicePointer = a == nullptr ? nullptr : at;
    attributes->hostPointer = a != nullptr && a->on_device() ? nullptr : at;
    return cudaSuccess;
  });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace hostoffload::inline v0::virtual_gpu::detail
