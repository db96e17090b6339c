#pragma once
// The scheduler's core, the same for every element type: who leases what, which slot it gets, which copies are issued
// and what waits for what. engine_lease.hpp, engine_copies.hpp, engine_step.hpp, engine_waiting.hpp,
// engine_plan.hpp and engine_capture.hpp hold the definitions.
//
// Host code decides everything at once and never waits; the device follows in stream order. A slot is given to the next
// tensor as soon as the host knows that the last one has left it, and the new user's stream waits for the events that
// say so.

#include <hostoffload/coroutine/loop.hpp>
#include <hostoffload/cuda/allocation.hpp>
#include <hostoffload/cuda/graph.hpp>
#include <hostoffload/cuda/stream.hpp>
#include <hostoffload/cuda/stream_order.hpp>
#include <hostoffload/environment.hpp>
#include <hostoffload/memory/callers_memory.hpp>
#include <hostoffload/memory/host_piece.hpp>
#include <hostoffload/memory/remembered_places.hpp>
#include <hostoffload/memory/slot_cache.hpp>
#include <hostoffload/memory/window_slab.hpp>
#include <hostoffload/options.hpp>
#include <hostoffload/report/step_report.hpp>
#include <hostoffload/schedule/copy_batch.hpp>
#include <hostoffload/schedule/host_value_request.hpp>
#include <hostoffload/schedule/step_history.hpp>
#include <hostoffload/schedule/step_planner.hpp>
#include <hostoffload/schedule/step_tape.hpp>
#include <hostoffload/schedule/tensor_record.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

/// What became of a request for a lease.
enum class outcome : std::uint8_t {
  granted,
  make,        // the define function has to run; slots for what it writes are taken
  no_room,     // the window is full of what is in use
  being_made,  // another coroutine makes it
};

/// A step as a graph, what it will report, and the layout of memory that it was captured with.
struct captured_step {
  executable_graph graph;
  step_report report;
  std::uint64_t layout;
};

/// Shared by a scheduler, its tensors and their leases; closed when the scheduler is destroyed. One thread.
class engine {
public:
  explicit engine(const scheduler_options& options);
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  ~engine() = default;

  void add_owner() noexcept { ++owners_; }
  void drop_owner() noexcept {
    if (--owners_ == 0) destroy(this);
  }
  /// The scheduler ends: waits for the copies in flight, frees all memory. Later calls throw, or, in destructors, do
  /// nothing.
  void close() noexcept;

  // tensors
  tensor_record& add(std::string_view name, layer_position at, std::size_t bytes, choice wanted);
  void remove(tensor_record& r) noexcept;
  void define(const std::shared_ptr<maker>& made_by);
  void resize(tensor_record& r, std::size_t bytes);

  // leases
  /// Grants the lease if a played step has it next, and nothing is to be made for it; else it has to be requested.
  [[nodiscard]] bool play_next_lease(granted_lease& granted, tensor_record& r, cudaStream_t on, bool last_use);
  [[nodiscard]] stream_id stream_of_lease(cudaStream_t on);
  [[nodiscard]] outcome request(lease_request& q) {
    const std::optional<outcome> played = play_next(q);
    return played ? *played : request(q, false);
  }
  /// Runs the plain define function that a request needs, and grants the lease.
  void make_inline(lease_request& q);
  /// Starts the coroutine; `waiter` goes on, in finish(q), when it has ended.
  void start_making(lease_request& q, promise_base& waiter);
  void enqueue(lease_request& q, promise_base& waiter);
  /// Nobody waits for it any more: what it had begun to make is as before.
  void give_up(lease_request& q) noexcept;
  /// The lease, or the error, after a wait.
  void finish(lease_request& q) {
    if (!q.granted || q.failure || q.waiter != nullptr) finish_waiting(q);
  }
  /// The lease at once: no coroutine is there to wait for it.
  void lease_now(lease_request& q);
  void begin_produce(lease_request& q);
  /// What a lease that is left by an exception wrote is not kept.
  void end_lease(tensor_record& r, std::uint64_t generation, stream_id on, bool writing,
                 bool left_by_exception) noexcept;

  // steps
  void begin_step();
  void end_step();
  void abandon_step() noexcept;
  [[nodiscard]] bool in_step() const noexcept { return in_step_; }
  /// In place of begin_step and end_step: what is enqueued in between is captured and does not run.
  void begin_capture();
  [[nodiscard]] captured_step end_capture();
  void launch(captured_step& step);
  /// Graphs captured before now use memory, or an order of copies, that does not hold any more; `why` continues "the
  /// captured step is stale: …" and is a literal.
  void invalidate_graphs(std::string_view why) noexcept;
  void throw_if_capturing(std::string_view what) const {
    if (capturing_)
      throw usage_error(std::string(what) +
                        ": a step in which the host asks or waits for the device cannot be captured");
  }
  template <class Promise>
  void run_loop(Promise& root) {
    loop_.run(root, [this] { idle(); });
  }
  void prepare_root(promise_base& root) noexcept { root.line = &root_line_; }
  [[nodiscard]] branch* current_line() noexcept;
  /// Puts a coroutine off until the host may read what `q` is for.
  void wait_for_value(host_value_request& q, promise_base& waiter);

  [[nodiscard]] step_report report();
  [[nodiscard]] std::optional<recorded_step> record() const { return planner_ ? planner_->record() : std::nullopt; }
  [[nodiscard]] cudaStream_t compute() const noexcept { return order_.handle(compute_id); }
  [[nodiscard]] static std::byte* making_pointer(const tensor_record& r) noexcept { return r.makes_at; }
  void throw_if_closed() const {
    if (closed_) throw usage_error("the scheduler has been destroyed: its tensors and steps are used while it lives");
  }

private:
  /// Not inlined: g++ 12 takes an owner that follows in the same function for a use after the delete.
  [[gnu::noinline]] static void destroy(engine* e) noexcept { delete e; }

  static constexpr stream_id compute_id = 0;
  static constexpr std::uint64_t any_rank = ~std::uint64_t{0};

  /// Times, in sampled steps, what the compute stream does between its two ends: waiting for a copy, or a copy itself.
  class timed_span {
  public:
    timed_span(engine& e, bool exposes) : engine_(exposes && (e.history_->samples() || e.planner_) ? &e : nullptr) {
      if (engine_ != nullptr) begin();
    }
    timed_span(const timed_span&) = delete;
    timed_span& operator=(const timed_span&) = delete;
    ~timed_span() {
      if (engine_ != nullptr) end();
    }

  private:
    void begin();
    void end() noexcept;
    engine* engine_;
  };

  /// Copies are gathered, and all enqueued before this ends; if not, something was thrown.
  class gathering {
  public:
    explicit gathering(engine& e) noexcept : engine_(e) {}
    gathering(const gathering&) = delete;
    gathering& operator=(const gathering&) = delete;
    ~gathering();

  private:
    engine& engine_;
  };

  // engine_repeat.hpp
  bool begin_repeated(bool timed);
  bool end_repeated();
  void begin_writing() noexcept;
  void end_writing();
  void stop_writing() noexcept;
  void write(request_kind is, const lease_request& q) noexcept {
    if (tape_.writing()) write_lease(is, q);
  }
  void write_lease(request_kind is, const lease_request& q) noexcept;
  void write_make(const lease_request& q) noexcept;
  void write_end(tensor_record& r, std::uint64_t generation, stream_id on, bool writing,
                 bool left_by_exception) noexcept;
  void write_request(taped_request r) noexcept;
  [[nodiscard]] std::optional<outcome> play_next(lease_request& q);
  [[nodiscard]] bool play(request_kind is, lease_request& q) { return tape_.playing() && play_lease(is, q); }
  [[nodiscard]] bool play_lease(request_kind is, lease_request& q);
  [[nodiscard]] bool play_calls(const taped_request& r);
  static void grant_played(granted_lease& granted, const taped_request& r) noexcept;
  void catch_up() {
    if (tape_.playing()) catch_up_from_tape();
  }
  void catch_up_from_tape();
  bool catch_up_quietly() noexcept;
  void forget_tape() noexcept {
    static_cast<void>(catch_up_quietly());
    stop_writing();
    tape_.forget();
  }
  void print_state();

  // engine_lease.hpp
  void warn_if_serialised(cudaStream_t on);
  outcome request(lease_request& q, bool oldest);
  /// Apart, as is the request of a lease, so that who plays one need not be ready for it.
  [[gnu::noinline]] void end_as_asked(tensor_record& r, std::uint64_t generation, stream_id on, bool writing,
                                      bool left_by_exception) noexcept {
    if (catch_up_quietly()) end_unplayed(r, generation, on, writing, left_by_exception);
  }
  void end_unplayed(tensor_record& r, std::uint64_t generation, stream_id on, bool writing,
                    bool left_by_exception) noexcept;
  void grant(lease_request& q);
  void settle(tensor_record& r);
  void drop(tensor_record& r) noexcept;
  void drop_shared() noexcept;
  void keep(tensor_record& r) noexcept;
  [[nodiscard]] static stream_clock last_users(const tensor_record& r) noexcept;
  void finish_life(tensor_record& r, bool by_last_use) noexcept;
  void serve_waiters();
  void dequeue(lease_request& q) noexcept;
  bool serve(lease_request& q, bool oldest);
  void resume(lease_request& q) noexcept;
  [[nodiscard]] std::string who_holds_the_window() const;
  [[noreturn]] void throw_no_room(const lease_request& q) const;
  void throw_kept_error();
  void throw_unless_mine(const promise_base& waiter) const;
  void throw_without_host_slot(const tensor_record& r) const;

  // engine_making.hpp
  bool begin_making(lease_request& q, bool oldest);
  void begin_branch(lease_request& q, bool again) noexcept;
  promise_base& making_coroutine(lease_request& q, const promise_base* waiter);
  void finish_making(tensor_record& r, const branch& under);
  void finish_making_and_grant(lease_request& q);
  void finish_waiting(lease_request& q);
  void throw_if_gone(const lease_request& q);
  void abort_making(const maker& what, bool has_run) noexcept;

  // engine_copies.hpp
  slot* take_slot(tensor_record& r, const branch* line, bool oldest, std::uint64_t rank_limit, stream_id taker);
  slot* take_in_window(tensor_record& r, const remembered_places::search& wanted, stream_id taker);
  void hold_slot(const tensor_record& r, const slot& s) noexcept;
  void free_slot(tensor_record& r, slot*& s, const stream_clock& behind) noexcept;
  void use_begins(slot& s, tensor_record& r) noexcept;
  void use_ends(slot& s, tensor_record& r) noexcept;
  void count_in_use(std::size_t bytes) noexcept;
  void forget_device_copy(tensor_record& r) noexcept;
  void copy_out(tensor_record& r);
  void enqueue_copies_out();
  void has_left(tensor_record& r, std::uint64_t point) noexcept;
  void copy_in(tensor_record& r, slot& target);
  void enqueue_copies_in();
  void has_arrived(tensor_record& r, slot& target, std::uint64_t point) noexcept;
  [[nodiscard]] bool is_small(const tensor_record& r, stream_id s) const noexcept;
  [[nodiscard]] bool may_fetch_ahead() const noexcept {
    return fetching_ahead_ && options_.overlap && window_ && !follows_plan();
  }
  void fetch_ahead();
  void put_behind(stream_id s, const stream_clock& needed, const purpose& what);
  void link_stowed(tensor_record& r) noexcept;
  void unlink_stowed(tensor_record& r) noexcept;
  [[nodiscard]] bool alone(const branch* line) const noexcept;
  [[nodiscard]] window_slab::room_to_leave room_to_leave(const tensor_record& r, const branch* line, bool oldest);
  [[nodiscard]] std::size_t bounded_window() const noexcept {
    return options_.window == unlimited ? 0 : options_.window;
  }

  // engine_plan.hpp
  void note(tensor_record& r, use_event what) noexcept {
    if (planner_ && r.in_window()) tell_planner(r, what);
  }
  void tell_planner(tensor_record& r, use_event what) noexcept;
  template <class Tell>
  void trace(Tell&& tell) noexcept;
  void plan_ahead();
  void apply_choice() noexcept;
  void follow_plan(bool before_use) {
    if (follows_plan()) issue_due_copies(before_use);
  }
  void issue_due_copies(bool before_use);
  void follow_plan_in_use() noexcept;
  bool bring_back(tensor_record& r, std::size_t offset);
  slot* take_planned(tensor_record& r, std::size_t offset);
  void leave_plan();
  void forget_plan() noexcept;
  void report_plan();
  void report_choice(step_report& to) const noexcept;
  [[nodiscard]] bool follows_plan() const noexcept { return planner_ && planner_->following(); }

  // engine_capture.hpp
  void join_streams();
  void begin_order_anew() noexcept;
  void discard_capture() noexcept;
  void observe_all_slots(void (*told)(void*, std::size_t)) const;

  // engine_step.hpp
  void prepare_step();
  void begin_counting();
  void finish_step();
  void idle();
  [[nodiscard]] lease_request* waiting_for(const tensor_record& r) const noexcept;
  [[nodiscard]] lease_request* oldest_waiting(const branch* after = nullptr) const noexcept;
  bool serve_oldest();
  void learn_reserve() noexcept;
  void reserve_host_memory();
  void take_host_slot(tensor_record& r);
  void end_all_lives(std::exception_ptr& first_error);
  tensor_report& row(const tensor_record& r) noexcept { return now_.tensors[r.row]; }
  void drop_leases_of(tensor_record& r) noexcept;
  void begin_report() noexcept;
  std::size_t row_of(std::string_view name);
  void count_tensor(const tensor_record& r, int change) noexcept;

  scheduler_options options_;
  std::optional<stream> out_stream_;
  std::optional<stream> in_stream_;
  stream_order order_;
  stream_id out_id_ = compute_id;
  stream_id in_id_ = compute_id;

  std::optional<device_allocation> window_memory_;
  std::optional<window_slab> window_;
  remembered_places places_;
  std::optional<slot_cache<device_allocation>> device_;
  std::optional<slot_cache<host_piece>> host_;
  std::size_t host_planned_ = 0;  // bytes of slots of all offloaded tensors
  bool all_have_host_slots_ = true;
  std::deque<tensor_record> records_;
  std::vector<tensor_record*> tensors_;
  std::vector<tensor_record*> free_records_;

  loop loop_;
  branch root_line_;
  branch* inline_line_ = nullptr;   // of the plain define function that runs now
  std::shared_ptr<maker> retired_;  // makers whose tensors went while they ran, until the step is over
  lease_request* first_waiting_ = nullptr;
  lease_request* last_waiting_ = nullptr;
  host_value_request* first_value_ = nullptr;
  std::exception_ptr kept_error_;

  std::size_t owners_ = 0;
  bool closed_ = false;
  bool in_step_ = false;
  bool capturing_ = false;
  bool order_is_old_ = false;  // a graph was launched since the last step
  bool has_launched_ = false;
  std::uint64_t layout_ = 0;  // of memory and copies, as graphs rely on it
  std::string_view layout_changed_by_{};
  bool fetching_ahead_ = false;        // the backward pass has begun
  bool room_changed_ = false;          // since fetch_ahead() last found none
  std::uint64_t looked_ahead_at_ = 0;  // the compute stream's point at that time
  std::uint64_t steps_ = 0;
  std::uint64_t uses_ = 0;
  std::uint64_t stowed_ = 0;
  tensor_record* last_stowed_ = nullptr;
  std::vector<tensor_record*> shared_;  // kept until the recomputation that runs has ended
  copy_batch leaving_;                  // not enqueued yet; both empty whenever the trainer's code runs
  copy_batch arriving_;

  std::size_t window_in_use_ = 0;  // bytes leased or being made
  std::size_t window_held_ = 0;    // and kept, leaving or arriving
  std::size_t device_held_ = 0;    // outside the window
  std::size_t host_held_ = 0;
  std::size_t reserve_ = 0;  // for the oldest of several branches: what one alone has needed
  bool reserve_known_ = false;
  bool several_branches_ = false;  // in this step
  std::size_t least_window_seen_ = 0;

  std::vector<std::string_view> warnings_ = warnings_of_environment();  // for the next report
  std::optional<observed_range> step_range_;
  std::unique_ptr<step_planner> planner_;  // where steps are to be planned
  std::uint64_t gate_ = 0;                 // the compute stream's point behind which the last planned copies in are,
  std::uint32_t gated_at_ = 0;             // recorded at this point of the plan

  step_tape tape_;
  std::array<std::uint64_t, max_streams> writing_from_{};  // the last points before the step that is written
  std::uint32_t calls_written_ = 0;                        // for its requests so far
  state_print state_;

  step_report now_;
  std::optional<step_history> history_;
};

}  // namespace hostoffload::inline v0::detail

#include <hostoffload/schedule/engine_capture.hpp>  // IWYU pragma: export
#include <hostoffload/schedule/engine_copies.hpp>   // IWYU pragma: export
#include <hostoffload/schedule/engine_lease.hpp>    // IWYU pragma: export
#include <hostoffload/schedule/engine_making.hpp>   // IWYU pragma: export
#include <hostoffload/schedule/engine_plan.hpp>     // IWYU pragma: export
#include <hostoffload/schedule/engine_repeat.hpp>   // IWYU pragma: export
#include <hostoffload/schedule/engine_step.hpp>     // IWYU pragma: export
#include <hostoffload/schedule/engine_waiting.hpp>  // IWYU pragma: export
