#pragma once
// The scheduler: owns the window, the pinned slab and the copy streams, and runs steps.

#include <hostoffload/coroutine/task.hpp>
#include <hostoffload/options.hpp>
#include <hostoffload/report/print.hpp>
#include <hostoffload/schedule/engine.hpp>

#include <concepts>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace hostoffload::inline v0 {

class step_graph;

namespace detail {

/// One of the owners of an engine.
class engine_ref {
public:
  explicit engine_ref(engine* e) noexcept : engine_(e) { engine_->add_owner(); }
  engine_ref(const engine_ref& other) noexcept : engine_(other.engine_) {
    if (engine_ != nullptr) engine_->add_owner();
  }
  engine_ref(engine_ref&& other) noexcept : engine_(std::exchange(other.engine_, nullptr)) {}
  engine_ref& operator=(engine_ref other) noexcept {
    std::swap(engine_, other.engine_);
    return *this;
  }
  ~engine_ref() {
    if (engine_ != nullptr) engine_->drop_owner();
  }
  [[nodiscard]] engine* operator->() const noexcept { return engine_; }
  [[nodiscard]] explicit operator bool() const noexcept { return engine_ != nullptr; }
  friend bool operator==(const engine_ref&, const engine_ref&) = default;

private:
  engine* engine_;
};

struct engine_access;

template <class T>
struct is_task : std::false_type {};
template <class T>
struct is_task<task<T>> : std::true_type {};

}  // namespace detail

/// Belongs to one thread and to the device that is current when it is built. Several may run side by side.
/// Its tensors may outlive it, but are of no use then.
class prefetch_scheduler {
public:
  /// Creates two streams and allocates the window. Throws cuda_error, out_of_memory, usage_error.
  explicit prefetch_scheduler(const scheduler_options& options) : engine_(new detail::engine(options)) {}
  prefetch_scheduler(const prefetch_scheduler&) = delete;
  prefetch_scheduler& operator=(const prefetch_scheduler&) = delete;
  /// Waits for the copies in flight, then frees all memory.
  ~prefetch_scheduler() { engine_->close(); }

  /// One step: calls `begin`, which returns a task, and runs it until all is enqueued; the device may still be at work.
  /// Returns the task's value. `begin` and its captures live until then. The end of the step ends every tensor's life.
  /// An exception abandons the step: nothing more is enqueued for it, no tensor holds values, and the scheduler is as
  /// before.
  template <std::invocable Begin>
  auto run(Begin&& begin) {
    using root_task = std::invoke_result_t<Begin>;
    static_assert(detail::is_task<root_task>::value,
                  "hostoffload: run takes a function that returns a hostoffload::task<...>, the step");
    const detail::engine_ref engine = engine_;  // the step may destroy the scheduler: an error, not more
    engine->begin_step();
    return finish(engine, std::forward<Begin>(begin), [&engine] { engine->end_step(); });
  }
  /// A task in place of the function that returns it: does not compile.
  template <class T>
  void run(task<T>) {
    static_assert(!detail::is_task<task<T>>::value,
                  "hostoffload: run takes the function that returns the step's task, and calls it when the step has "
                  "begun: run([&] { return train_step(model); })");
  }

  /// Captures one step instead of running it: nothing is enqueued until the graph is launched. `begin` returns a task,
  /// whose value is dropped, or is straight-line code (define functions, produce, fetch). The step must not need the
  /// host in the middle (host_values), nor device memory that no step before has needed; the trainer's own code must
  /// not allocate, synchronise or ask for events, and joins its own streams. An exception ends the capture, and the
  /// scheduler is as before. Throws usage_error, cuda_error, and what run throws. Defined in step_graph.hpp.
  template <std::invocable Begin>
  [[nodiscard]] step_graph capture(Begin&& begin);

  /// What the newest step did that the device has completed; asks CUDA, does not synchronize. Step 0: none has.
  [[nodiscard]] step_report report() const { return engine_->report(); }

  /// The step that was timed last, for planning elsewhere (schedule/record_file.hpp): every tensor, whatever its
  /// placement, and how it was made. The link is that of the last timed step with copies in it. Nothing without
  /// options.plan, before there is one, and of steps whose coroutines take turns within define functions.
  [[nodiscard]] std::optional<recorded_step> record() const { return engine_->record(); }

  [[nodiscard]] cudaStream_t compute() const noexcept { return engine_->compute(); }

private:
  friend detail::engine_access;

  /// Runs the task that `begin` returns within the step that has begun, then ends the step by `end_step`.
  template <class Begin, class End>
  static auto finish(const detail::engine_ref& engine, Begin&& begin, const End& end_step) {
    try {
      auto root = std::forward<Begin>(begin)();
      auto& promise = detail::task_access::unstarted(root);
      engine->prepare_root(promise);
      try {
        engine->run_loop(promise);
        promise.rethrow_failure();
      } catch (...) {
        engine->abandon_step();  // before root is destroyed, so that the leases it holds enqueue nothing
        throw;
      }
      end_step();
      return promise.take();
    } catch (...) {
      if (engine->in_step()) engine->abandon_step();
      throw;
    }
  }

  detail::engine_ref engine_;
};

/// A step in straight-line code, for trainers without coroutines: tensors are produced and fetched while it lives.
class step {
public:
  explicit step(prefetch_scheduler& scheduler);
  step(const step&) = delete;
  step& operator=(const step&) = delete;

  /// Ends the step and throws what went wrong in it. Without this call the destructor ends it, quietly.
  void end() {
    if (ended_) throw usage_error("a step ends once");
    ended_ = true;
    engine_->end_step();
  }

  /// Left by an exception, the step is abandoned.
  ~step() {
    if (ended_) return;
    if (std::uncaught_exceptions() > exceptions_) {
      engine_->abandon_step();
      return;
    }
    try {
      engine_->end_step();
    } catch (const std::exception&) {  // end() would have told
    }
  }

private:
  detail::engine_ref engine_;
  int exceptions_ = std::uncaught_exceptions();
  bool ended_ = false;
};

namespace detail {
struct engine_access {
  [[nodiscard]] static const engine_ref& of(const prefetch_scheduler& s) noexcept { return s.engine_; }
};
}  // namespace detail

inline step::step(prefetch_scheduler& scheduler) : engine_(detail::engine_access::of(scheduler)) {
  engine_->begin_step();
}

}  // namespace hostoffload::inline v0
