#pragma once
/* How a kernel reaches the virtual GPU: the one function that it has beyond the CUDA runtime API. Plain C structs, so
   that whoever calls it need not know anything else of the virtual GPU. */

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of device memory, or of pinned host memory that the kernel reaches in place. */
struct hostoffload_range {
  const void* begin;
  size_t bytes;
};

/* Which arithmetic rate of the machine a kernel is bound by: the matrix rate of a precision; fp32 is the vector rate.
 */
enum hostoffload_precision {
  hostoffload_fp64,
  hostoffload_fp32,
  hostoffload_tf32,
  hostoffload_bf16,
  hostoffload_fp8,
  hostoffload_fp4
};

struct hostoffload_kernel {
  const char* name; /* copied */

  /* All bytes that the kernel may read, and all that it may write; what it reads, changes and writes back stands in
     both. The race detector sees these. Under the address sanitizer nothing else of the device's memory may be touched.
   */
  const struct hostoffload_range* reads;
  size_t read_count;
  const struct hostoffload_range* writes;
  size_t write_count;

  /* Work: alone on the device the kernel takes max(flops / rate of the precision, bytes / HBM rate, seconds) and a
   * fixed latency. `seconds` is what it waits for outside the device, as for a network; others do not share it. */
  double flops;
  double bytes;
  double seconds;
  enum hostoffload_precision precision;

  /* The kernel's code and arguments: `copy` makes a copy at `to`, aligned to `closure_align`, before the launch
     returns; `run` is called on it once, when the kernel completes in virtual time (not at all where a range is no
     memory of the device); then `destroy`. `run` must not call CUDA functions. All four may be null for a kernel that
     has only a duration; `destroy` may be null by itself. */
  size_t closure_bytes;
  size_t closure_align;
  const void* closure;
  void (*copy)(void* to, const void* from);
  void (*run)(void* closure);
  void (*destroy)(void* closure);
};

/* Enqueues a kernel on `stream`, as <<<…>>> does; does not synchronize. Errors: cudaErrorInvalidValue (null kernel,
   negative work, a precision out of range), cudaErrorInvalidResourceHandle (no such stream), cudaErrorNotSupported (the
   machine has no units for the precision). */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) /* as in CUDA's headers: then the null stream is one per thread */
#define hostoffload_launch hostoffload_launch_ptsz
#endif
cudaError_t hostoffload_launch(cudaStream_t stream, const struct hostoffload_kernel* kernel);

#ifdef __cplusplus
}
#endif
