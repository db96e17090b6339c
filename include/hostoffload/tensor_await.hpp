#pragma once
// What co_await does on a tensor.

#include <hostoffload/lease.hpp>

#include <coroutine>
#include <cstddef>
#include <utility>

namespace hostoffload::inline v0::detail {

/// Lives in the awaiting coroutine's frame for one await. A tensor that is resident, arriving or still leaving is
/// leased without suspending.
template <class T>
class tensor_awaiter {
public:
  tensor_awaiter(const engine_ref& owner, tensor_record& r, cudaStream_t on, bool last_use)
      : engine_(owner), request_(owner->request_for(r, on, last_use)), result_(owner->request(request_)) {
    if (result_ != outcome::make || request_.tensor->made_by->is_coroutine()) return;
    engine_->make_inline(request_);
    result_ = outcome::granted;
  }
  tensor_awaiter(const tensor_awaiter&) = delete;
  tensor_awaiter& operator=(const tensor_awaiter&) = delete;
  ~tensor_awaiter() {
    if (engine_) engine_->give_up(request_);  // not resumed: the lease has the reference else
  }

  [[nodiscard]] bool await_ready() const noexcept { return result_ == outcome::granted; }

  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> waiter) {
    check_awaits_in_task<Promise>();
    if (result_ == outcome::make) {
      engine_->start_making(request_, waiter.promise());
    } else {
      engine_->enqueue(request_, waiter.promise());
    }
  }

  [[nodiscard("hostoffload: a lease that is not kept ends at once: bind it to a name")]] lease<const T> await_resume() {
    engine_->finish(request_);
    return lease_access::make<const T>(std::move(engine_), request_);
  }

private:
  engine_ref engine_;
  lease_request request_;
  outcome result_;
};

/// A tensor on a stream of the trainer's: co_await tensor.on(stream).
template <class T>
class tensor_on_stream {
public:
  tensor_on_stream(const engine_ref& owner, tensor_record& r, cudaStream_t on, bool last_use) noexcept
      : engine_(owner), tensor_(&r), stream_(on), last_use_(last_use) {}

  [[nodiscard]] tensor_awaiter<T> operator co_await() const {
    return tensor_awaiter<T>(engine_, *tensor_, stream_, last_use_);
  }

private:
  engine_ref engine_;
  tensor_record* tensor_;
  cudaStream_t stream_;
  bool last_use_;
};

}  // namespace hostoffload::inline v0::detail
