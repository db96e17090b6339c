#pragma once
// What co_await does on a tensor.

#include <hostoffload/lease.hpp>

#include <coroutine>
#include <cstddef>
#include <optional>
#include <utility>

namespace hostoffload::inline v0::detail {

/// Lives in the awaiting coroutine's frame for one await. A tensor that is resident, arriving or still leaving is
/// leased without suspending.
template <class T>
class tensor_awaiter {
public:
  tensor_awaiter(const engine_ref& owner, tensor_record& r, cudaStream_t on, bool last_use) : engine_(owner) {
    if (!owner->play_next_lease(played_, r, on, last_use)) request(r, on, last_use);
  }
  tensor_awaiter(const tensor_awaiter&) = delete;
  tensor_awaiter& operator=(const tensor_awaiter&) = delete;
  ~tensor_awaiter() {
    if (request_) end_request();
  }

  [[nodiscard]] bool await_ready() const noexcept { return result_ == outcome::granted; }

  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> waiter) {
    check_awaits_in_task<Promise>();
    if (result_ == outcome::make) {
      engine_->start_making(*request_, waiter.promise());
    } else {
      engine_->enqueue(*request_, waiter.promise());
    }
  }

  [[nodiscard("hostoffload: a lease that is not kept ends at once: bind it to a name")]] lease<const T> await_resume() {
    if (request_) return finish();
    return lease_access::make<const T>(std::move(engine_), played_);
  }

private:
  [[gnu::noinline]] void request(tensor_record& r, cudaStream_t on, bool last_use) {
    lease_request& q = request_.emplace(r, engine_->stream_of_lease(on), last_use);
    result_ = engine_->request(q);
    if (result_ != outcome::make || r.made_by->is_coroutine()) return;
    engine_->make_inline(q);
    result_ = outcome::granted;
  }
  [[gnu::noinline]] lease<const T> finish() {
    engine_->finish(*request_);
    return lease_access::make<const T>(std::move(engine_), *request_);
  }
  [[gnu::noinline]] void end_request() noexcept {
    if (engine_) engine_->give_up(*request_);  // not resumed: the lease has the reference else
    request_.reset();
  }

  engine_ref engine_;
  outcome result_ = outcome::granted;
  granted_lease played_;
  std::optional<lease_request> request_{};  // of a lease that is not played
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
