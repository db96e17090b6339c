// Device memory and pools.

#include <hostoffload/virtual_gpu/detail/call.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

// The allocation that starts at `at`, or null and a finding.
allocation* freeable(const context& c, void* at, bool device_memory) {
  allocation* a = c.gpu.memory.find(at);
  const access who = c.gpu.access_of_host(c.name);
  if (a == nullptr) {
    const auto* former = c.gpu.memory.find_former(at);
    c.gpu.detect.report(finding_kind::bad_free, who,
                        former == nullptr
                            ? "frees what is no allocation"
                            : "frees memory that call #" + std::to_string(former->freed_call) + " freed already");
    return nullptr;
  }
  c.gpu.require(a->device);
  const bool kind_fits = device_memory ? a->on_device() : a->kind == memory_kind::pinned;
  if (kind_fits && a->begin == at) return a;
  c.gpu.detect.report(
      finding_kind::bad_free, who,
      (kind_fits ? "frees a pointer into " : "is not the function that frees ") + c.gpu.detect.describe(*a));
  return nullptr;
}

cudaError_t allocate_in_order(const context& c, void** out, std::size_t bytes, pool& from, cudaStream_t handle) {
  stream* s = c.gpu.find_stream(handle, c.thread);
  if (s == nullptr) return cudaErrorInvalidResourceHandle;
  if (out == nullptr || s->device != from.device) return cudaErrorInvalidValue;
  platform::refuse_if_captured(*s);
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  *out = c.gpu.allocate_from(from, bytes, *s, c.name, c.thread);
  return *out == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

template <typename Body>
cudaError_t with_pool(function_id& f, cudaMemPool_t handle, Body body) {
  return call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    pool* p = c.gpu.pools.find(handle);
    return p == nullptr ? cudaErrorInvalidValue : body(c, *p);
  });
}

template <typename Body>
cudaError_t with_device(function_id& f, int device, Body body) {
  return call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    return device < 0 || device >= c.gpu.device_count() ? cudaErrorInvalidDevice : body(c, c.gpu.on(device));
  });
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): parameters are named as in CUDA's header
extern "C" {

cudaError_t cudaMalloc(void** devPtr, std::size_t size) {
  static function_id f("cudaMalloc");
  return call(f, &host_costs::allocate, [&](const context& c) -> cudaError_t {
    if (devPtr == nullptr) return cudaErrorInvalidValue;
    *devPtr = nullptr;
    if (size == 0) return cudaSuccess;
    *devPtr = c.gpu.allocate(size, c.name, c.thread.device);
    return *devPtr == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

// Waits for the device that has the memory, as cudaDeviceSynchronize would; but "this API will not perform any implicit
// synchronization when the pointer was allocated with cudaMallocAsync".
cudaError_t cudaFree(void* devPtr) {
  static function_id f("cudaFree");
  return call(f, &host_costs::allocate, [&](const context& c) -> cudaError_t {
    if (devPtr == nullptr) return cudaSuccess;
    allocation* a = freeable(c, devPtr, true);
    if (a == nullptr) return cudaErrorInvalidValue;
    if (a->block == nullptr) c.gpu.wait_for_device(a->device, c.thread);
    // What runs on other devices is not waited for.
    c.gpu.detect.free(c.gpu.access_of_host(c.name), c.gpu.host_clock(), *a);
    if (!c.gpu.detect.silent()) c.gpu.wait_for_device(a->device, c.thread);  // what is wrong must not end in a crash
    c.gpu.free(*a);
    return cudaSuccess;
  });
}

cudaError_t cudaMallocAsync(void** devPtr, std::size_t size, cudaStream_t hStream) {
  static function_id f("cudaMallocAsync");
  return call(f, &host_costs::pool, [&](const context& c) -> cudaError_t {
    stream* s = c.gpu.find_stream(hStream, c.thread);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    return allocate_in_order(c, devPtr, size, *c.gpu.on(s->device).current_pool, hStream);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** ptr, std::size_t size, cudaMemPool_t memPool, cudaStream_t stream) {
  static function_id f("cudaMallocFromPoolAsync");
  return call(f, &host_costs::pool, [&](const context& c) -> cudaError_t {
    pool* p = c.gpu.pools.find(memPool);
    return p == nullptr ? cudaErrorInvalidValue : allocate_in_order(c, ptr, size, *p, stream);
  });
}

cudaError_t cudaFreeAsync(void* devPtr, cudaStream_t hStream) {
  static function_id f("cudaFreeAsync");
  return call(f, &host_costs::pool, [&](const context& c) -> cudaError_t {
    stream* s = c.gpu.find_stream(hStream, c.thread);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    if (devPtr == nullptr) return cudaSuccess;
    platform::refuse_if_captured(*s);
    allocation* a = freeable(c, devPtr, true);
    if (a == nullptr) return cudaErrorInvalidValue;
    c.gpu.free_in_order(*a, *s, c.name, c.thread);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* memPool, const cudaMemPoolProps* props) {
  static function_id f("cudaMemPoolCreate");
  return call(f, &host_costs::create, [&](const context& c) -> cudaError_t {
    if (memPool == nullptr || props == nullptr || props->allocType != cudaMemAllocationTypePinned) {
      return cudaErrorInvalidValue;
    }
    if (props->location.type != cudaMemLocationTypeDevice || props->handleTypes != cudaMemHandleTypeNone) {
      return cudaErrorNotSupported;  // host pools and exports
    }
    if (props->location.id < 0 || props->location.id >= c.gpu.device_count()) return cudaErrorInvalidDevice;
    const auto [p, handle] = c.gpu.pools.add();
    p->number = ++c.gpu.serial;
    p->call = c.gpu.calls;
    p->device = props->location.id;
    p->max_bytes = props->maxSize;
    *memPool = handle;
    return cudaSuccess;
  });
}

// "Destroying the current mempool of a device sets the default mempool of that device as the current mempool."
cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool) {
  static function_id f("cudaMemPoolDestroy");
  return with_pool(f, memPool, [&](const context& c, pool& p) -> cudaError_t {
    if (p.is_default) return cudaErrorInvalidValue;
    c.gpu.destroy_pool(memPool);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  static function_id f("cudaMemPoolSetAttribute");
  return with_pool(f, memPool, [&](const context&, pool& p) -> cudaError_t {
    if (value == nullptr) return cudaErrorInvalidValue;
    const auto flag = [value] { return *static_cast<const int*>(value) != 0; };
    const auto number = [value] { return *static_cast<const std::uint64_t*>(value); };
    switch (attr) {
      case cudaMemPoolReuseFollowEventDependencies:
        p.follow_events = flag();
        break;
      case cudaMemPoolReuseAllowOpportunistic:
        p.opportunistic = flag();
        break;
      case cudaMemPoolReuseAllowInternalDependencies:
        p.internal_dependencies = flag();
        break;
      case cudaMemPoolAttrReleaseThreshold:
        p.release_threshold = number();
        break;
      // The high-water marks can only be reset.
      case cudaMemPoolAttrReservedMemHigh:
        if (number() != 0) return cudaErrorInvalidValue;
        p.reserved_high = p.reserved;
        break;
      case cudaMemPoolAttrUsedMemHigh:
        if (number() != 0) return cudaErrorInvalidValue;
        p.used_high = p.used;
        break;
      default:
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  static function_id f("cudaMemPoolGetAttribute");
  return with_pool(f, memPool, [&](const context&, pool& p) -> cudaError_t {
    if (value == nullptr) return cudaErrorInvalidValue;
    const auto flag = [value](bool v) { *static_cast<int*>(value) = v ? 1 : 0; };
    const auto number = [value](std::uint64_t v) { *static_cast<std::uint64_t*>(value) = v; };
    switch (attr) {
      case cudaMemPoolReuseFollowEventDependencies:
        flag(p.follow_events);
        break;
      case cudaMemPoolReuseAllowOpportunistic:
        flag(p.opportunistic);
        break;
      case cudaMemPoolReuseAllowInternalDependencies:
        flag(p.internal_dependencies);
        break;
      case cudaMemPoolAttrReleaseThreshold:
        number(p.release_threshold);
        break;
      case cudaMemPoolAttrReservedMemCurrent:
        number(p.reserved);
        break;
      case cudaMemPoolAttrReservedMemHigh:
        number(p.reserved_high);
        break;
      case cudaMemPoolAttrUsedMemCurrent:
        number(p.used);
        break;
      case cudaMemPoolAttrUsedMemHigh:
        number(p.used_high);
        break;
      default:
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, std::size_t minBytesToKeep) {
  static function_id f("cudaMemPoolTrimTo");
  return with_pool(f, memPool, [&](const context& c, pool& p) -> cudaError_t {
    c.gpu.trim(p, minBytesToKeep);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* memPool, int device) {
  static function_id f("cudaDeviceGetDefaultMemPool");
  return with_device(f, device, [&](const context&, device_state& d) -> cudaError_t {
    if (memPool == nullptr) return cudaErrorInvalidValue;
    *memPool = d.default_pool_handle;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* memPool, int device) {
  static function_id f("cudaDeviceGetMemPool");
  return with_device(f, device, [&](const context&, device_state& d) -> cudaError_t {
    if (memPool == nullptr) return cudaErrorInvalidValue;
    *memPool = d.current_pool_handle;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool) {
  static function_id f("cudaDeviceSetMemPool");
  return with_device(f, device, [&](const context& c, device_state& d) -> cudaError_t {
    pool* p = c.gpu.pools.find(memPool);
    if (p == nullptr || p->device != device) return cudaErrorInvalidValue;
    d.current_pool = p;
    d.current_pool_handle = memPool;
    return cudaSuccess;
  });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace hostoffload::inline v0::virtual_gpu::detail
