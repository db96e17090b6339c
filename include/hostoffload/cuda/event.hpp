#pragma once
// CUDA events: a view and an owner.

#include <hostoffload/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

namespace hostoffload::inline v0 {

/// A mark in a stream's order. View: the event must outlive the calls, not the waits they enqueue.
class event_ref {
public:
  /*implicit*/ event_ref(cudaEvent_t handle) noexcept : handle_(handle) {}
  event_ref(int) = delete;  // 0 is not an event
  event_ref(std::nullptr_t) = delete;

  [[nodiscard]] cudaEvent_t get() const noexcept { return handle_; }

  /// Marks all that was enqueued on `on` so far. Waits enqueued earlier keep the mark they saw. Does not synchronize.
  void record(cudaStream_t on, const detail::purpose& what = {}) const {
    detail::check(cudaEventRecord(handle_, on), "cudaEventRecord", what);
  }

  /// Work enqueued on `behind` from now on starts when the mark is reached. Does not synchronize.
  void hold(cudaStream_t behind, const detail::purpose& what = {}) const {
    detail::check(cudaStreamWaitEvent(behind, handle_, 0), "cudaStreamWaitEvent", what);
  }

private:
  cudaEvent_t handle_;
};

enum class event_use { ordering, timing };

/// Owns an event of the current device. Moved-from: empty, only to be assigned or destroyed.
class event {
public:
  /// Events without timing are cheaper to record.
  event() : event(event_use::ordering) {}
  explicit event(event_use use) {
    const unsigned flags = use == event_use::timing ? cudaEventDefault : cudaEventDisableTiming;
    detail::check(cudaEventCreateWithFlags(&handle_, flags), "cudaEventCreateWithFlags");
  }
  event(event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  event& operator=(event&& other) noexcept {
    event(std::move(other)).swap(*this);
    return *this;
  }
  /// Waits already enqueued stay valid.
  ~event() {
    if (handle_ != nullptr) detail::ignore(cudaEventDestroy(handle_));
  }

  void swap(event& other) noexcept { std::swap(handle_, other.handle_); }
  [[nodiscard]] operator event_ref() const noexcept { return {handle_}; }
  [[nodiscard]] cudaEvent_t get() const noexcept { return handle_; }

private:
  cudaEvent_t handle_ = nullptr;
};

namespace detail {

/// From one event to another, both made for timing; nothing while the device has not come to both. Throws cuda_error.
inline std::optional<double> seconds_between(event_ref from, event_ref to) {
  float milliseconds = 0;
  const cudaError_t code = cudaEventElapsedTime(&milliseconds, from.get(), to.get());
  if (code == cudaErrorNotReady) {
    ignore(code);
    return std::nullopt;
  }
  check(code, "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) / 1e3;
}

}  // namespace detail

static_assert(std::is_nothrow_move_constructible_v<event> && !std::is_copy_constructible_v<event>);
static_assert(sizeof(event) == sizeof(cudaEvent_t) && std::is_trivially_copyable_v<event_ref>);

}  // namespace hostoffload::inline v0
