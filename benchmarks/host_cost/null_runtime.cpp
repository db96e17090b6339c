#include "null_runtime.hpp"

#include <cstdlib>

namespace null_runtime {
namespace {

std::vector<call>* calls_to = nullptr;
std::uintptr_t last_handle = 0;

void note(const call& c) {
  if (calls_to != nullptr) calls_to->push_back(c);
}

template <class Handle>
cudaError_t create(Handle* out) {
  note({});
  last_handle += 16;
  *out = reinterpret_cast<Handle>(last_handle);  // NOLINT(performance-no-int-to-ptr)
  return cudaSuccess;
}

cudaError_t other() {
  note({});
  return cudaSuccess;
}

}  // namespace

void record_calls(std::vector<call>* to) { calls_to = to; }

void replay(const std::vector<call>& calls) {
  for (const call& c : calls) {
    switch (c.is) {
      case call::function::copy:
        static_cast<void>(cudaMemcpyAsync(const_cast<void*>(c.first), c.second, c.bytes, cudaMemcpyDefault, c.on));
        break;
      case call::function::record:
        static_cast<void>(cudaEventRecord(static_cast<cudaEvent_t>(const_cast<void*>(c.first)), c.on));
        break;
      case call::function::wait:
        static_cast<void>(cudaStreamWaitEvent(c.on, static_cast<cudaEvent_t>(const_cast<void*>(c.first)), 0));
        break;
      case call::function::other:
        static_cast<void>(cudaDeviceSynchronize());
        break;
    }
  }
}

}  // namespace null_runtime

// NOLINTBEGIN(readability-identifier-naming): parameters are named as in CUDA's header
extern "C" {

using null_runtime::call;

cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t count, cudaMemcpyKind, cudaStream_t stream) {
  null_runtime::note({call::function::copy, dst, src, count, stream});
  return cudaSuccess;
}
#if CUDART_VERSION >= 13000  // not called before
cudaError_t cudaMemcpyBatchAsync(void* const*, const void* const*, const std::size_t*, std::size_t,
                                 cudaMemcpyAttributes*, std::size_t*, std::size_t, cudaStream_t) {
  return null_runtime::other();
}
#endif
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  null_runtime::note({call::function::record, event, nullptr, 0, stream});
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  null_runtime::note({call::function::wait, event, nullptr, 0, stream});
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** devPtr, std::size_t size) {
  *devPtr = std::aligned_alloc(256, (size + 255) / 256 * 256);
  return *devPtr != nullptr ? null_runtime::other() : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* devPtr) {
  std::free(devPtr);
  return null_runtime::other();
}
cudaError_t cudaHostAlloc(void** pHost, std::size_t size, unsigned int) { return cudaMalloc(pHost, size); }
cudaError_t cudaFreeHost(void* ptr) { return cudaFree(ptr); }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void*) {
  *attributes = {};
  return null_runtime::other();
}
cudaError_t cudaHostRegister(void*, std::size_t, unsigned int) { return null_runtime::other(); }
cudaError_t cudaHostUnregister(void*) { return null_runtime::other(); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int, int) {
  return null_runtime::create(pStream);
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return null_runtime::other(); }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return null_runtime::other(); }
cudaError_t cudaStreamGetFlags(cudaStream_t, unsigned int* flags) {
  *flags = cudaStreamNonBlocking;
  return null_runtime::other();
}
cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long* streamId) {
  *streamId = reinterpret_cast<std::uintptr_t>(hStream);
  return null_runtime::other();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) { return null_runtime::create(event); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return null_runtime::other(); }
cudaError_t cudaEventQuery(cudaEvent_t) { return null_runtime::other(); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return null_runtime::other(); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 1;
  return null_runtime::other();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return null_runtime::other(); }
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* pGraph) { return null_runtime::create(pGraph); }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* pCaptureStatus) {
  *pCaptureStatus = cudaStreamCaptureStatusNone;
  return null_runtime::other();
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t, unsigned long long) {
  return null_runtime::create(pGraphExec);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return null_runtime::other(); }
cudaError_t cudaGraphDestroy(cudaGraph_t) { return null_runtime::other(); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return null_runtime::other(); }

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return null_runtime::other();
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 0;
  return null_runtime::other();
}
cudaError_t cudaDeviceSynchronize() { return null_runtime::other(); }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "error"; }
const char* cudaGetErrorString(cudaError_t) { return "error"; }

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
