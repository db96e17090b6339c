// Code compiled for one default stream per thread (CUDA_API_PER_THREAD_DEFAULT_STREAM, nvcc --default-stream
// per-thread) calls these functions: CUDA's headers give it their names. Only the null stream has another meaning.

#include <hostoffload/virtual_gpu/kernel.h>

#include <cstddef>

namespace {

cudaStream_t here(cudaStream_t stream) { return stream == nullptr ? cudaStreamPerThread : stream; }

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): named as in CUDA's header
extern "C" {

cudaError_t hostoffload_launch_ptsz(cudaStream_t stream, const hostoffload_kernel* kernel) {
  return hostoffload_launch(here(stream), kernel);
}

cudaError_t cudaMemcpyAsync_ptsz(void* dst, const void* src, std::size_t count, cudaMemcpyKind kind,
                                 cudaStream_t stream) {
  return cudaMemcpyAsync(dst, src, count, kind, here(stream));
}

cudaError_t cudaMemcpy2DAsync_ptsz(void* dst, std::size_t dpitch, const void* src, std::size_t spitch,
                                   std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpy2DAsync(dst, dpitch, src, spitch, width, height, kind, here(stream));
}

#if CUDART_VERSION >= 13000
cudaError_t cudaMemcpyBatchAsync_ptsz(void* const* dsts, const void* const* srcs, const std::size_t* sizes,
                                      std::size_t count, cudaMemcpyAttributes* attrs, std::size_t* attrsIdxs,
                                      std::size_t numAttrs, cudaStream_t stream) {
  return cudaMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, here(stream));
}
#endif

cudaError_t cudaMemsetAsync_ptsz(void* devPtr, int value, std::size_t count, cudaStream_t stream) {
  return cudaMemsetAsync(devPtr, value, count, here(stream));
}

cudaError_t cudaMemset2DAsync_ptsz(void* devPtr, std::size_t pitch, int value, std::size_t width, std::size_t height,
                                   cudaStream_t stream) {
  return cudaMemset2DAsync(devPtr, pitch, value, width, height, here(stream));
}

cudaError_t cudaMallocAsync_ptsz(void** devPtr, std::size_t size, cudaStream_t stream) {
  return cudaMallocAsync(devPtr, size, here(stream));
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void** ptr, std::size_t size, cudaMemPool_t memPool, cudaStream_t stream) {
  return cudaMallocFromPoolAsync(ptr, size, memPool, here(stream));
}

cudaError_t cudaFreeAsync_ptsz(void* devPtr, cudaStream_t stream) { return cudaFreeAsync(devPtr, here(stream)); }

cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) { return cudaStreamSynchronize(here(stream)); }

cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) { return cudaStreamQuery(here(stream)); }

cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return cudaStreamWaitEvent(here(stream), event, flags);
}

cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t stream, unsigned int* flags) {
  return cudaStreamGetFlags(here(stream), flags);
}

cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t stream, int* priority) {
  return cudaStreamGetPriority(here(stream), priority);
}

cudaError_t cudaStreamGetDevice_ptsz(cudaStream_t stream, int* device) {
  return cudaStreamGetDevice(here(stream), device);
}

cudaError_t cudaStreamGetId_ptsz(cudaStream_t stream, unsigned long long* id) {
  return cudaStreamGetId(here(stream), id);
}

cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamIsCapturing(here(stream), status);
}

cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return cudaStreamBeginCapture(here(stream), mode);
}

cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t* graph) {
  return cudaStreamEndCapture(here(stream), graph);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                          cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                          const cudaGraphEdgeData** edges, std::size_t* count) {
  return cudaStreamGetCaptureInfo(here(stream), status, id, graph, dependencies, edges, count);
}
#endif

cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  return cudaGraphUpload(exec, here(stream));
}

cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  return cudaGraphLaunch(exec, here(stream));
}

cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecord(event, here(stream));
}

cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return cudaEventRecordWithFlags(event, here(stream), flags);
}

cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  return cudaLaunchHostFunc(here(stream), fn, userData);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
