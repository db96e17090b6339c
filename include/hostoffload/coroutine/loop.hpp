#pragma once
// The loop that runs coroutines of one thread. Nobody resumes anybody directly: a coroutine that suspends names who
// runs next and returns to the loop. So a chain of a million ready awaits needs no stack (symmetric transfer is no tail
// call in unoptimised code), and no coroutine is resumed before its await_suspend has returned. No CUDA here.

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

namespace hostoffload::inline v0::detail {

/// A line of coroutines that run one after the other; when_all begins one per child. What a define function does is a
/// line of its own, below the one that awaits.
struct branch {
  branch* parent = nullptr;
  bool has_siblings = false;     // that run side by side with it
  std::uint64_t order = 0;       // among the children of one parent, in the order they were given
  const void* making = nullptr;  // the tensor that this branch makes, if it runs a define function …
  bool again = false;            // … because its values were dropped

  /// Whether this runs within a define function that makes dropped values again.
  [[nodiscard]] bool recomputes() const noexcept {
    for (const branch* b = this; b != nullptr; b = b->parent) {
      if (b->again) return true;
    }
    return false;
  }
  [[nodiscard]] bool makes(const void* tensor) const noexcept {
    for (const branch* b = this; b != nullptr; b = b->parent) {
      if (b->making == tensor) return true;
    }
    return false;
  }
  /// What the innermost define function that this runs within makes, if there is one.
  [[nodiscard]] const void* maker_around() const noexcept {
    const branch* b = this;
    while (b != nullptr && b->making == nullptr) b = b->parent;
    return b == nullptr ? nullptr : b->making;
  }
  [[nodiscard]] std::size_t depth() const noexcept {
    std::size_t steps = 0;
    for (const branch* b = parent; b != nullptr; b = b->parent) ++steps;
    return steps;
  }
};

/// Whether `a` comes before `b` when everything runs one after the other.
[[nodiscard]] inline bool older(const branch& a, const branch& b) noexcept {
  const branch* x = &a;
  const branch* y = &b;
  std::size_t depth_x = x->depth();
  std::size_t depth_y = y->depth();
  const bool ancestor_first = depth_x < depth_y;
  for (; depth_x > depth_y; --depth_x) x = x->parent;
  for (; depth_y > depth_x; --depth_y) y = y->parent;
  if (x == y) return ancestor_first;
  while (x->parent != y->parent) {
    x = x->parent;
    y = y->parent;
  }
  return x->order < y->order;
}

class loop;

/// What every coroutine of this library carries. Lives in its frame.
struct promise_base {
  std::coroutine_handle<> self;
  loop* runner = nullptr;                // set when started
  branch* line = nullptr;                // inherited from whoever awaits it
  promise_base* continuation = nullptr;  // runs when this has ended …
  std::size_t* unfinished = nullptr;     // … and, under when_all, when this count has come to zero
  promise_base* next = nullptr;          // in the loop's queue

  void start_under(promise_base& parent) noexcept {
    runner = parent.runner;
    line = parent.line;
    continuation = &parent;
  }
};

/// What await_suspend asks of the coroutine that awaits.
template <class Promise>
constexpr void check_awaits_in_task() noexcept {
  static_assert(
      std::derived_from<Promise, promise_base>,
      "hostoffload: tensors, tasks and host values are awaited in a coroutine that returns hostoffload::task<>");
}

class loop {
public:
  loop() noexcept = default;
  loop(const loop&) = delete;
  loop& operator=(const loop&) = delete;

  /// Runs next, before everything queued.
  void put_first(promise_base& p) noexcept {
    p.next = first_;
    first_ = &p;
    if (last_ == nullptr) last_ = &p;
  }
  /// Runs after everything queued.
  void put_last(promise_base& p) noexcept {
    p.next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = &p;
    last_ = &p;
  }

  [[nodiscard]] branch* current_line() const noexcept { return current_ == nullptr ? nullptr : current_->line; }

  /// Resumes queued coroutines until `root` has ended. When none is queued, calls `idle`, which queues one or throws.
  template <class Idle>
  void run(promise_base& root, Idle&& idle) {
    root.runner = this;
    promise_base* const outer = current_;
    put_first(root);
    try {
      while (!root.self.done()) {
        if (first_ == nullptr) idle();
        current_ = first_;
        first_ = first_->next;
        if (first_ == nullptr) last_ = nullptr;
        current_->self.resume();
      }
    } catch (...) {
      current_ = outer;
      throw;
    }
    current_ = outer;
  }

  /// Drops the queue: its coroutines are about to be destroyed.
  void clear() noexcept { first_ = last_ = nullptr; }

private:
  promise_base* first_ = nullptr;
  promise_base* last_ = nullptr;
  promise_base* current_ = nullptr;
};

}  // namespace hostoffload::inline v0::detail
