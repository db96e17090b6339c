#pragma once
// Several tasks at once: each runs until it has to wait, then another goes on. No CUDA here.

#include <hostoffload/coroutine/task.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

namespace hostoffload::inline v0 {

namespace detail {

/// Owns the tasks and their branches while they run. Awaited once.
template <class Tasks, class Branches>
class all_awaiter {
public:
  explicit all_awaiter(Tasks tasks, Branches branches = {}) : tasks_(std::move(tasks)), branches_(std::move(branches)) {
    for (const auto& t : tasks_) static_cast<void>(task_access::unstarted(t));
  }
  all_awaiter(const all_awaiter&) = delete;
  all_awaiter& operator=(const all_awaiter&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return tasks_.size() == 0; }

  template <class Parent>
  void await_suspend(std::coroutine_handle<Parent> parent) noexcept {
    check_awaits_in_task<Parent>();
    unfinished_ = tasks_.size();
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      promise_base& child = task_access::promise(tasks_[i]);
      child.start_under(parent.promise());
      branches_[i].parent = parent.promise().line;
      branches_[i].order = i;
      branches_[i].has_siblings = tasks_.size() > 1;
      child.line = &branches_[i];
      child.unfinished = &unfinished_;
      child.runner->put_last(child);
    }
  }

  /// Rethrows the first failure in the order of the arguments, when all have ended.
  void await_resume() const {
    for (const auto& t : tasks_) task_access::promise(t).take();
  }

private:
  Tasks tasks_;
  Branches branches_;
  std::size_t unfinished_ = 0;
};

}  // namespace detail

/// co_await when_all(a(), b()): runs the tasks side by side, first come first served, and goes on when all have ended.
/// The order of launches within each is its own program order; between them it may vary.
template <std::same_as<task<>>... Tasks>
[[nodiscard]] auto when_all(Tasks... tasks) {
  constexpr std::size_t n = sizeof...(Tasks);
  return detail::all_awaiter<std::array<task<>, n>, std::array<detail::branch, n>>(
      std::array<task<>, n>{std::move(tasks)...});
}

[[nodiscard]] inline auto when_all(std::vector<task<>> tasks) {
  std::vector<detail::branch> branches(tasks.size());
  return detail::all_awaiter<std::vector<task<>>, std::vector<detail::branch>>(std::move(tasks), std::move(branches));
}

}  // namespace hostoffload::inline v0
