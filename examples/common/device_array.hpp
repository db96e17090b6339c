#pragma once
// Device memory as an array, and copies to and from the host that wait for their end.

#include <hostoffload/cuda/allocation.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace examples {

namespace ho = hostoffload;

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
    ho::check(cudaMemcpyAsync(values.data(), data(), bytes(), cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    ho::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return values;
  }
  void from_host(std::span<const T> values, cudaStream_t stream) {
    ho::check(cudaMemcpyAsync(data(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync");
    ho::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  void zero(cudaStream_t stream) { ho::check(cudaMemsetAsync(data(), 0, bytes(), stream), "cudaMemsetAsync"); }

private:
  ho::device_allocation memory_;
  std::size_t size_;
};

}  // namespace examples
