#pragma once
// A step captured once in a CUDA graph and launched again and again: the host then pays for one call, whatever the
// number of copies and kernels.

#include <hostoffload/prefetch_scheduler.hpp>

#include <concepts>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

namespace hostoffload::inline v0 {

/// What prefetch_scheduler::capture returns. Each launch is one step with the kernels, copies and addresses of the
/// captured one: what changes from step to step (inputs, step number, learning rate) has to lie in device memory that
/// the trainer writes between launches. May outlive the scheduler, but only to be destroyed. Moved-from: empty, only to
/// be assigned or destroyed.
class step_graph {
public:
  /// One step on the compute stream, behind all that it and the scheduler's steps were given; steps run in between are
  /// ordered likewise. Does not synchronize. Throws stale_graph_error (a tensor is gone, pinned memory was given back,
  /// or copies are planned in another way), usage_error (within a step, or without the scheduler), cuda_error.
  void launch() { engine_->launch(captured_); }

  /// Times that it was launched.
  [[nodiscard]] std::size_t launches() const noexcept { return captured_.report.replays; }

private:
  friend class prefetch_scheduler;
  step_graph(detail::engine_ref owner, detail::captured_step captured) noexcept
      : engine_(std::move(owner)), captured_(std::move(captured)) {}

  detail::engine_ref engine_;
  detail::captured_step captured_;
};

static_assert(std::is_nothrow_move_constructible_v<step_graph> && !std::is_copy_constructible_v<step_graph>);

template <std::invocable Begin>
step_graph prefetch_scheduler::capture(Begin&& begin) {
  using result = std::invoke_result_t<Begin>;
  static_assert(detail::is_task<result>::value || std::is_void_v<result>,
                "hostoffload: capture takes a function that returns a hostoffload::task<...>, or straight-line code");
  const detail::engine_ref engine = engine_;
  engine->begin_capture();
  std::optional<detail::captured_step> made;
  const auto end_step = [&] { made.emplace(engine->end_capture()); };
  if constexpr (detail::is_task<result>::value) {
    static_cast<void>(finish(engine, std::forward<Begin>(begin), end_step));
  } else {
    try {
      std::forward<Begin>(begin)();
      end_step();
    } catch (...) {
      if (engine->in_step()) engine->abandon_step();
      throw;
    }
  }
  return {engine, std::move(*made)};
}

}  // namespace hostoffload::inline v0
