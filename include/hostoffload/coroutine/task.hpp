#pragma once
// task<T>: a coroutine that starts when it is awaited and hands its value or exception to whoever awaits it. No CUDA
// here.

#include <hostoffload/coroutine/frame_pool.hpp>
#include <hostoffload/coroutine/loop.hpp>
#include <hostoffload/errors.hpp>

#include <concepts>
#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace hostoffload::inline v0 {

template <class T = void>
class task;

namespace detail {

struct task_access;

/// Returns to the loop, which runs whoever waited.
struct final_awaiter {
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
    promise_base& p = ended.promise();
    if (p.continuation == nullptr) return;
    if (p.unfinished != nullptr && --*p.unfinished != 0) return;
    p.runner->put_first(*p.continuation);
  }
  void await_resume() const noexcept {}
};

struct task_promise_base : promise_base {
  std::exception_ptr failure;

  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] final_awaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { failure = std::current_exception(); }
  void rethrow_failure() const {
    if (failure) std::rethrow_exception(failure);
  }

  static void* operator new(std::size_t bytes) { return frame_pool::allocate(bytes); }
  static void operator delete(void* frame, std::size_t bytes) noexcept { frame_pool::deallocate(frame, bytes); }
};

template <class T>
struct task_promise : task_promise_base {
  std::optional<T> value;
  task<T> get_return_object() noexcept;
  template <std::convertible_to<T> U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() {
    rethrow_failure();
    return std::move(*value);
  }
};

template <>
struct task_promise<void> : task_promise_base {
  task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() const { rethrow_failure(); }
};

}  // namespace detail

/// Awaited once (else usage_error), in a coroutine that returns a task. Destroying one that has begun ends its leases.
/// Moved-from: empty.
template <class T>
class [[nodiscard("hostoffload: a task does nothing until it is awaited: co_await it, or give it to when_all")]] task {
  static_assert(!std::is_reference_v<T>, "hostoffload: task<T&> would dangle: return a pointer or a value");

public:
  using promise_type = detail::task_promise<T>;

  task(task && other) noexcept : frame_(std::exchange(other.frame_, {})) {}
  task& operator=(task&& other) noexcept {
    task(std::move(other)).swap(*this);
    return *this;
  }
  ~task() {
    if (frame_) frame_.destroy();
  }
  void swap(task & other) noexcept { std::swap(frame_, other.frame_); }

  class awaiter {
  public:
    explicit awaiter(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Parent>
    void await_suspend(std::coroutine_handle<Parent> parent) const noexcept {
      detail::check_awaits_in_task<Parent>();
      frame_.promise().start_under(parent.promise());
      frame_.promise().runner->put_first(frame_.promise());
    }
    T await_resume() const { return frame_.promise().take(); }

  private:
    std::coroutine_handle<promise_type> frame_;
  };

  [[nodiscard]] awaiter operator co_await() const { return awaiter(unstarted()); }

private:
  friend detail::task_access;
  friend promise_type;
  explicit task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}

  [[nodiscard]] std::coroutine_handle<promise_type> unstarted() const {
    if (!frame_) throw usage_error("a task that was moved from is awaited");
    if (frame_.promise().runner != nullptr) throw usage_error("a task is awaited once: call its function again");
    return frame_;
  }

  std::coroutine_handle<promise_type> frame_;
};

namespace detail {

template <class T>
task<T> task_promise<T>::get_return_object() noexcept {
  const auto frame = std::coroutine_handle<task_promise>::from_promise(*this);
  self = frame;
  return task<T>(frame);
}

inline task<void> task_promise<void>::get_return_object() noexcept {
  const auto frame = std::coroutine_handle<task_promise>::from_promise(*this);
  self = frame;
  return task<void>(frame);
}

/// For the loop's owner and when_all.
struct task_access {
  template <class T>
  [[nodiscard]] static task_promise<T>& promise(const task<T>& t) noexcept {
    return t.frame_.promise();
  }
  /// Of one that is to begin: throws usage_error if it was moved from, or has begun.
  template <class T>
  [[nodiscard]] static task_promise<T>& unstarted(const task<T>& t) {
    return t.unstarted().promise();
  }
};

}  // namespace detail

static_assert(std::is_nothrow_move_constructible_v<task<int>> && !std::is_copy_constructible_v<task<>>);
static_assert(sizeof(task<int>) == sizeof(void*));

}  // namespace hostoffload::inline v0
