#pragma once
// Values that the host has to read in the middle of a step, such as the number of tokens that were routed to each
// expert.

#include <hostoffload/cuda/allocation.hpp>
#include <hostoffload/cuda/event.hpp>
#include <hostoffload/prefetch_scheduler.hpp>

#include <cuda_runtime_api.h>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <type_traits>

namespace hostoffload::inline v0 {

/// Pinned memory for values that are read back again and again. Build it once; a steady step allocates nothing. It
/// outlives the steps in which it is read.
template <class T>
class host_values {
  static_assert(std::is_trivially_copyable_v<T>, "hostoffload: host_values holds trivially copyable elements");

public:
  host_values(const prefetch_scheduler& scheduler, std::size_t most)
      : engine_(detail::engine_access::of(scheduler)), memory_(most * sizeof(T)), most_(most) {}

  class awaiter {
  public:
    awaiter(const detail::engine_ref& owner, event_ref arrived, std::span<const T> values, bool& read)
        : engine_(owner), request_{.arrived = arrived}, values_(values), being_read_(&read) {
      read = true;
    }
    awaiter(const awaiter&) = delete;
    awaiter& operator=(const awaiter&) = delete;
    ~awaiter() { *being_read_ = false; }

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> waiter) {
      detail::check_awaits_in_task<Promise>();
      engine_->wait_for_value(request_, waiter.promise());
    }
    [[nodiscard]] std::span<const T> await_resume() const {
      if (request_.failure) std::rethrow_exception(request_.failure);
      return values_;
    }

  private:
    detail::engine_ref engine_;
    detail::host_value_request request_;
    std::span<const T> values_;
    bool* being_read_;
  };

  /// auto counts = co_await values.read(device, n, stream): copies n elements behind what `on` was given so far, and
  /// goes on when they are here. Other coroutines run meanwhile; only when none can, the host waits for the device,
  /// once per read, and the report counts it. The span is valid until the next read; reads that are under way at one
  /// time are of host_values of their own, else usage_error.
  [[nodiscard]] awaiter read(const T* device, std::size_t n, cudaStream_t on) {
    if (n > most_) {
      throw usage_error("host_values was built for " + std::to_string(most_) + " elements, " + std::to_string(n) +
                        " are read");
    }
    if (being_read_) throw usage_error("host_values is read while another read of it is awaited: each needs its own");
    engine_->throw_if_capturing("host_values::read of " + std::to_string(n) + " elements");
    auto* const here = static_cast<T*>(memory_.region().begin);
    detail::check(cudaMemcpyAsync(here, device, n * sizeof(T), cudaMemcpyDeviceToHost, on), "cudaMemcpyAsync",
                  {"host_values", 0, {}});
    event_ref(arrived_).record(on, {"host_values", 0, {}});
    return awaiter(engine_, arrived_, std::span<const T>(here, n), being_read_);
  }

private:
  detail::engine_ref engine_;
  pinned_allocation memory_;
  event arrived_;
  std::size_t most_;
  bool being_read_ = false;
};

}  // namespace hostoffload::inline v0
