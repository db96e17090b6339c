#pragma once
// What the cases share: owners, and kernels that take long enough for a wrong order to show. Only the CUDA runtime API
// and launch(), so that the suite runs on a GPU as it is: there a slow kernel really takes its time, and what CUDA
// allows but does not promise is reported and not required.

#include <cstddef>

#include <hostoffload/launch.hpp>

#include "catch.hpp"

namespace semantics {

inline void ok(cudaError_t error) {
  INFO(cudaGetErrorName(error));
  REQUIRE(error == cudaSuccess);
}

/// CUDA allows it, and everything that we know of does it: the virtual GPU must, a GPU may not.
inline void usually(bool seen) {
#if defined(__CUDACC__)
  if (!seen) WARN("not seen on this device");
#else
  CHECK(seen);
#endif
}

class stream {
public:
  explicit stream(unsigned flags = cudaStreamNonBlocking) { ok(cudaStreamCreateWithFlags(&stream_, flags)); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() {
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor): as CUDA takes it

private:
  cudaStream_t stream_ = nullptr;
};

class event {
public:
  explicit event(unsigned flags = cudaEventDisableTiming) { ok(cudaEventCreateWithFlags(&event_, flags)); }
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  ~event() { static_cast<void>(cudaEventDestroy(event_)); }
  operator cudaEvent_t() const { return event_; }  // NOLINT(google-explicit-constructor): as CUDA takes it

private:
  cudaEvent_t event_ = nullptr;
};

/// Zeros on the device.
class device_ints {
public:
  explicit device_ints(std::size_t n) {
    void* p = nullptr;
    ok(cudaMalloc(&p, n * sizeof(int)));
    data_ = static_cast<int*>(p);
    ok(cudaMemset(data_, 0, n * sizeof(int)));
    ok(cudaDeviceSynchronize());
  }
  device_ints(const device_ints&) = delete;
  device_ints& operator=(const device_ints&) = delete;
  ~device_ints() {
    static_cast<void>(cudaDeviceSynchronize());
    static_cast<void>(cudaFree(data_));
  }
  operator int*() const { return data_; }  // NOLINT(google-explicit-constructor): as an array is one
  [[nodiscard]] int* at(std::size_t i) const { return data_ + i; }

private:
  int* data_ = nullptr;
};

/// Zeros in pinned memory.
class pinned_ints {
public:
  explicit pinned_ints(std::size_t n) {
    void* p = nullptr;
    ok(cudaMallocHost(&p, n * sizeof(int)));
    data_ = static_cast<int*>(p);
    for (std::size_t i = 0; i < n; ++i) data_[i] = 0;
  }
  pinned_ints(const pinned_ints&) = delete;
  pinned_ints& operator=(const pinned_ints&) = delete;
  ~pinned_ints() {
    static_cast<void>(cudaDeviceSynchronize());
    static_cast<void>(cudaFreeHost(data_));
  }
  operator int*() const { return data_; }  // NOLINT(google-explicit-constructor): as an array is one

private:
  int* data_ = nullptr;
};

/// After all that the device has to do.
inline int value(const int* on_device) {
  ok(cudaDeviceSynchronize());
  int result = 0;
  ok(cudaMemcpy(&result, on_device, sizeof result, cudaMemcpyDeviceToHost));
  return result;
}

inline constexpr int slow_milliseconds = 20;

/// *to = from == nullptr ? number : *from, after so many milliseconds.
struct assign {
  int* to;
  const int* from;
  int number;
  int milliseconds;

  HOSTOFFLOAD_DEVICE void operator()(std::size_t) const {
#if defined(__CUDA_ARCH__)
    const long long start = clock64();
    while (clock64() - start < milliseconds * 1'500'000LL) {
    }
#endif
    *to = from == nullptr ? number : *from;
  }
};

inline double flops_of(int milliseconds) { return milliseconds * 80e9; }  // of the virtual machine

inline void write(cudaStream_t s, int* to, int number, int milliseconds = 0) {
  hostoffload::launch(s, 1, assign{to, nullptr, number, milliseconds},
                      {.name = "write", .writes = {{to, sizeof *to}}, .flops = flops_of(milliseconds)});
}
inline void slow_write(cudaStream_t s, int* to, int number) { write(s, to, number, slow_milliseconds); }

inline void read(cudaStream_t s, int* to, const int* from, int milliseconds = 0) {
  hostoffload::launch(
      s, 1, assign{to, from, 0, milliseconds},
      {.name = "read", .reads = {{from, sizeof *from}}, .writes = {{to, sizeof *to}}, .flops = flops_of(milliseconds)});
}

}  // namespace semantics
