#pragma once
// An owned CUDA stream.

#include <hostoffload/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <type_traits>
#include <utility>

namespace hostoffload::inline v0 {

/// Owns a non-blocking stream of the current device: it has no order with the legacy default stream, which trainers
/// use. Moved-from: empty, only to be assigned or destroyed.
class stream {
public:
  /// A lower number is a higher priority; CUDA clamps it to the device's range.
  explicit stream(int priority = 0) {
    detail::check(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking, priority),
                  "cudaStreamCreateWithPriority");
  }
  stream(stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  stream& operator=(stream&& other) noexcept {
    stream(std::move(other)).swap(*this);
    return *this;
  }
  /// Enqueued work still completes.
  ~stream() {
    if (handle_ != nullptr) detail::ignore(cudaStreamDestroy(handle_));
  }

  void swap(stream& other) noexcept { std::swap(handle_, other.handle_); }
  [[nodiscard]] cudaStream_t get() const noexcept { return handle_; }

private:
  cudaStream_t handle_ = nullptr;
};

namespace detail {

/// Whether the handle stands for the one stream that blocking streams wait for, and that for them.
[[nodiscard]] inline bool is_legacy_default(cudaStream_t handle) noexcept {
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
  return handle == cudaStreamLegacy;
#else
  return handle == nullptr || handle == cudaStreamLegacy;
#endif
}

}  // namespace detail

static_assert(std::is_nothrow_move_constructible_v<stream> && !std::is_copy_constructible_v<stream>);
static_assert(sizeof(stream) == sizeof(cudaStream_t));

}  // namespace hostoffload::inline v0
