// Devices and error state.

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include <hostoffload/virtual_gpu/detail/call.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

constexpr int least_priority = 0;
constexpr int greatest_priority = -5;

struct error_text {
  cudaError_t code;
  const char* name;
  const char* text;
};

// The errors that this runtime or its callers may use; the texts are short, as a message ends in them.
constexpr error_text errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorCudartUnloading, "cudaErrorCudartUnloading", "driver shutting down"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "driver version is insufficient for the runtime"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no device"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error"},
    {cudaErrorOperatingSystem, "cudaErrorOperatingSystem", "operating system call failed"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "illegal state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out"},
    {cudaErrorContextIsDestroyed, "cudaErrorContextIsDestroyed", "context is destroyed"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered", "host memory is already registered"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered", "host memory is not registered"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "not permitted while a stream is captured"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated", "a capture was invalidated"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge", "two captures would become one"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "the capture began on another stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "a stream of the capture was not joined to the one where it began"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "a captured stream would depend on what is not captured"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "the legacy default stream would depend on a capture"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread", "the capture began on another thread"},
    {cudaErrorGraphExecUpdateFailure, "cudaErrorGraphExecUpdateFailure",
     "the graph differs in more than its parameters"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent", "not permitted on an event last recorded in a capture"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const error_text* find_error(cudaError_t code) {
  for (const auto& e : errors) {
    if (e.code == code) return &e;
  }
  return nullptr;
}

template <typename Body>
cudaError_t of_device(function_id& f, const void* out, int device, Body body) {
  return call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    if (device < 0 || device >= c.gpu.device_count()) return cudaErrorInvalidDevice;
    return body(c);
  });
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  static function_id f("cudaGetDeviceCount");
  return call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = c.gpu.device_count();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  static function_id f("cudaGetDevice");
  return call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = c.thread.device;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  static function_id f("cudaSetDevice");
  return of_device(f, &device, device, [&](const context& c) -> cudaError_t {
    c.thread.device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  static function_id f("cudaGetDeviceProperties");
  return of_device(f, prop, device, [&](const context& c) -> cudaError_t {
    const machine& m = c.gpu.model;
    *prop = {};
    const std::string name = "virtual " + m.name;
    std::memcpy(prop->name, name.data(), std::min(name.size(), sizeof prop->name - 1));
    prop->uuid.bytes[0] = static_cast<char>(device + 1);
    prop->totalGlobalMem = static_cast<std::size_t>(m.device_memory.value);
    prop->major = m.compute_major;
    prop->minor = m.compute_minor;
    prop->multiProcessorCount = m.multiprocessors;
    prop->l2CacheSize = static_cast<int>(m.l2_bytes);
    prop->warpSize = 32;
    prop->maxThreadsPerBlock = 1024;
    prop->maxThreadsPerMultiProcessor = 2048;
    prop->canMapHostMemory = prop->concurrentKernels = prop->unifiedAddressing = 1;
    prop->asyncEngineCount = 2;
    prop->streamPrioritiesSupported = prop->memoryPoolsSupported = 1;
    prop->hostRegisterSupported = prop->canUseHostPointerForRegisteredMem = 1;
    prop->pciBusID = device + 1;
    prop->hostNumaId = m.host_numa_node;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  static function_id f("cudaDeviceGetAttribute");
  return of_device(f, value, device, [&](const context& c) -> cudaError_t {
    const machine& m = c.gpu.model;
    switch (attr) {
      case cudaDevAttrMultiProcessorCount:
        *value = m.multiprocessors;
        break;
      case cudaDevAttrComputeCapabilityMajor:
        *value = m.compute_major;
        break;
      case cudaDevAttrComputeCapabilityMinor:
        *value = m.compute_minor;
        break;
      case cudaDevAttrL2CacheSize:
        *value = static_cast<int>(m.l2_bytes);
        break;
      case cudaDevAttrHostNumaId:
        *value = m.host_numa_node;
        break;
      case cudaDevAttrWarpSize:
        *value = 32;
        break;
      case cudaDevAttrMaxThreadsPerBlock:
        *value = 1024;
        break;
      case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = 2048;
        break;
      case cudaDevAttrAsyncEngineCount:
        *value = 2;
        break;
      case cudaDevAttrCanMapHostMemory:
      case cudaDevAttrConcurrentKernels:
      case cudaDevAttrUnifiedAddressing:
      case cudaDevAttrStreamPrioritiesSupported:
      case cudaDevAttrHostRegisterSupported:
      case cudaDevAttrCanUseHostPointerForRegisteredMem:
      case cudaDevAttrMemoryPoolsSupported:
        *value = 1;
        break;
      case cudaDevAttrIntegrated:
      case cudaDevAttrManagedMemory:
      case cudaDevAttrConcurrentManagedAccess:
      case cudaDevAttrPageableMemoryAccess:
      case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
      case cudaDevAttrDirectManagedMemAccessFromHost:
        *value = 0;
        break;
      default:
        return cudaErrorNotSupported;  // not described
    }
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  static function_id f("cudaDeviceGetStreamPriorityRange");
  return call(f, &host_costs::other, [&](const context&) -> cudaError_t {
    if (least != nullptr) *least = least_priority;
    if (greatest != nullptr) *greatest = greatest_priority;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  static function_id f("cudaDeviceSynchronize");
  return call(f, &host_costs::synchronise, [&](const context& c) -> cudaError_t {
    c.gpu.refuse_if_capturing(c.thread.device);
    c.gpu.wait_for_device(c.thread.device, c.thread);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceReset() {
  static function_id f("cudaDeviceReset");
  return call(f, &host_costs::synchronise, [&](const context& c) -> cudaError_t {
    c.gpu.reset_device(c.thread.device, c.thread);
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  static function_id f("cudaMemGetInfo");
  return call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    if (free == nullptr || total == nullptr) return cudaErrorInvalidValue;
    *total = static_cast<std::size_t>(c.gpu.model.device_memory.value);
    *free = *total - c.gpu.on(c.thread.device).used;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  static function_id f("cudaDriverGetVersion");
  return call(f, &host_costs::other, [&](const context&) -> cudaError_t {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  static function_id f("cudaRuntimeGetVersion");
  return call(f, &host_costs::other, [&](const context&) -> cudaError_t {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

// The two error queries return the last error and produce none themselves.
cudaError_t cudaGetLastError() {
  static function_id f("cudaGetLastError");
  cudaError_t last = cudaSuccess;
  const cudaError_t failed = call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    last = std::exchange(c.thread.last_error, c.gpu.on(c.thread.device).lost);
    if (c.thread.last_error != cudaSuccess) last = c.thread.last_error;
    return cudaSuccess;
  });
  return failed != cudaSuccess ? failed : last;
}

cudaError_t cudaPeekAtLastError() {
  static function_id f("cudaPeekAtLastError");
  cudaError_t last = cudaSuccess;
  const cudaError_t failed = call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    const cudaError_t lost = c.gpu.on(c.thread.device).lost;
    last = lost != cudaSuccess ? lost : c.thread.last_error;
    return cudaSuccess;
  });
  return failed != cudaSuccess ? failed : last;
}

const char* cudaGetErrorName(cudaError_t error) {
  const auto* e = find_error(error);
  return e == nullptr ? "unrecognized error code" : e->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* e = find_error(error);
  return e == nullptr ? "unrecognized error code" : e->text;
}

}  // extern "C"

}  // namespace hostoffload::inline v0::virtual_gpu::detail
