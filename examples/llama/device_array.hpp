#pragma once
// Device memory as an array, and copies to and from the host that wait for their end.

#include <hostoffload/cuda/allocation.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llama {

namespace ho = hostoffload;

inline void check(cudaError_t code, std::string_view call) {
  if (code == cudaSuccess) return;
  throw ho::cuda_error(std::string(call) + ": " + cudaGetErrorString(code), code, call);
}

/// Not initialised. Throws ho::out_of_memory.
template <class T>
class device_array {
public:
  explicit device_array(std::size_t size) : memory_(std::max<std::size_t>(size, 1) * sizeof(T)), size_(size) {}

  [[nodiscard]] T* data() const { return static_cast<T*>(memory_.region().begin); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const { return size_ * sizeof(T); }

  /// Waits for `stream`.
  [[nodiscard]] std::vector<T> to_host(cudaStream_t stream) const {
    std::vector<T> values(size_);
    check(cudaMemcpyAsync(values.data(), data(), bytes(), cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return values;
  }
  void from_host(std::span<const T> values, cudaStream_t stream) {
    check(cudaMemcpyAsync(data(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  void zero(cudaStream_t stream) { check(cudaMemsetAsync(data(), 0, bytes(), stream), "cudaMemsetAsync"); }

private:
  ho::device_allocation memory_;
  std::size_t size_;
};

}  // namespace llama
