#pragma once
// Slots, and the copies between device and host. Part of engine.hpp.

#include <hostoffload/schedule/engine.hpp>

namespace hostoffload::inline v0::detail {

/// Whether nobody else of the same step may hold leases: no when_all is under way.
inline bool engine::alone(const branch* line) const noexcept {
  for (const branch* b = line; b != nullptr; b = b->parent) {
    if (b->has_siblings) return false;
  }
  return true;
}

/// What a new slot has to leave free in one piece. Of several branches only the oldest may draw on the reserve, so that
/// it can always end and give back what it holds; while it is not known how much that takes, they run one after the
/// other. With a tensor in its first life it is not known either: what the steps before have needed is no bound.
inline window_slab::room_to_leave engine::room_to_leave(const tensor_record& r, const branch* line, bool oldest) {
  const std::size_t bytes = slot_size(r.life_bytes);
  const std::size_t needed = reserve_known_ ? reserve_ : window_->total_bytes();
  if (alone(line) || order_.calls().is_passing()) {  // what is asked once more is decided as when the tape was written
    const std::size_t expected = r.generation <= 1 ? window_->total_bytes() : needed;
    return {expected - std::min(expected, window_in_use_ + bytes), false};
  }
  several_branches_ = true;
  if (oldest) return {needed - std::min(needed, bytes), false};  // the others' leases are not its own
  return {needed, true};
}

inline void engine::use_begins(slot& s, tensor_record& r) noexcept {
  s.state = slot_state::in_use;
  if (!r.in_window()) return;
  places_.note(s);
  note(r, use_event::begins);
  if (!r.made_again) count_in_use(s.bytes);
}

inline void engine::count_in_use(std::size_t bytes) noexcept {
  window_in_use_ += bytes;
  least_window_seen_ = std::max(least_window_seen_, window_in_use_);
}

inline void engine::use_ends(slot& s, tensor_record& r) noexcept {
  if (r.in_window() && !r.made_again) window_in_use_ -= s.bytes;
  note(r, use_event::ends);
  room_changed_ = true;
}

/// The values are on the host: the slot may go to somebody else.
inline void engine::keep(tensor_record& r) noexcept {
  r.device->state = slot_state::kept;
  r.device->rank = r.rank;
  places_.note(*r.device);
  r.device->behind = last_users(r);
}

/// What the next user of the device slot has to be behind.
inline stream_clock engine::last_users(const tensor_record& r) noexcept {
  stream_clock users = r.written;
  users.join(r.readers);
  return users;
}

/// No lease is left.
inline void engine::settle(tensor_record& r) {
  if (r.last_use || r.temporary) {
    finish_life(r, true);
    return;
  }
  if (r.treated_as() == choice::offload) {
    if (r.on_host) keep(r);
  } else if (r.treated_as() == choice::remat && r.pattern.in_longest_gap()) {
    // In the first step everything is dropped at once. What one recomputation needs several times is made once for it
    // even then: else a chain of definitions that each await the one before twice would take 2^n runs.
    if (!r.pattern.known() && current_line()->recomputes()) {
      shared_.push_back(&r);
    } else {
      drop(r);
    }
  }
}

inline void engine::drop(tensor_record& r) noexcept {
  row(r).planned_bytes += r.life_bytes;
  row(r).freed_bytes += r.life_bytes;
  free_slot(r, r.device, last_users(r));
  if (!r.in_window()) return;
  trace([&](step_recorder& t) { t.is_dropped(r); });
  note(r, use_event::dropped);
}

/// The recomputation for which they were kept is over.
inline void engine::drop_shared() noexcept {
  for (tensor_record* r : shared_) {
    if (r->state == life::alive && r->device != nullptr && r->leases == 0) drop(*r);
  }
  shared_.clear();
}

/// A slot for `r`, of kept ones only those of rank below `rank_limit`. Whoever writes there goes behind slot::behind
/// first. Null: no room in the window.
inline slot* engine::take_slot(tensor_record& r, const branch* line, bool oldest, std::uint64_t rank_limit,
                               stream_id taker) {
  const std::size_t bytes = slot_size(r.in_window() ? r.life_bytes : r.bytes);
  const bool ahead = rank_limit != any_rank;
  slot* taken = nullptr;
  if (r.in_window() && follows_plan()) {
    const std::size_t* const offset = planner_->departed() ? nullptr : planner_->cursor.place_of(r);
    taken = offset != nullptr ? take_planned(r, *offset) : nullptr;
    if (taken != nullptr) return taken;
    leave_plan();
  }
  if (r.in_window() && window_) {
    const auto leave = ahead ? window_slab::room_to_leave{} : room_to_leave(r, line, oldest);
    taken = take_in_window(r, {bytes, rank_limit, leave}, taker);
    if (taken == nullptr) return nullptr;
  } else {
    if (capturing_ && !device_->has_free(bytes)) {
      throw usage_error("tensor " + r.title() +
                        ": a captured step cannot allocate device memory: run such a step once before it is captured");
    }
    taken = &device_->take(bytes, r, order_.clock_of(taker), r.as_purpose());
  }
  hold_slot(r, *taken);
  return taken;
}

inline slot* engine::take_in_window(tensor_record& r, const remembered_places::search& wanted, stream_id taker) {
  const auto evict = [this](tensor_record& evicted) { forget_device_copy(evicted); };
  slot* taken = nullptr;
  if (const remembered_places::place* const known = places_.find(wanted)) {
    if (known->begin != nullptr) taken = window_->take_at(*known->first, known->begin, wanted.bytes, r, evict);
  } else {
    taken = window_->take(wanted.bytes, r, wanted.rank_limit, wanted.leave, order_.clock_of(taker), evict);
  }
  places_.remember(wanted,
                   taken != nullptr ? remembered_places::place{taken->begin, taken} : remembered_places::place{});
  if (taken != nullptr) places_.note(*taken);
  return taken;
}

inline void engine::hold_slot(const tensor_record& r, const slot& s) noexcept {
  (r.in_window() ? window_held_ : device_held_) += s.bytes;
  if (r.made_again) count_in_use(s.bytes);  // nobody else can have it: its values are nowhere else
  now_.window_peak_bytes = std::max(now_.window_peak_bytes, window_held_);
  now_.device_peak_bytes = std::max(now_.device_peak_bytes, window_held_ + device_held_);
  order_.calls().tell(options_.observer.taken, s.begin, s.bytes);
}

/// The slot is not in use any more; its next owner goes behind `behind`.
inline void engine::free_slot(tensor_record& r, slot*& s, const stream_clock& behind) noexcept {
  order_.calls().tell(options_.observer.given_back, s->begin, s->bytes);
  (r.in_window() ? window_held_ : device_held_) -= s->bytes;
  if (r.made_again) window_in_use_ -= s->bytes;
  if (r.in_window() && window_) {
    s->state = slot_state::free;
    places_.note(*s);
    window_->give_back(*s, behind);
  } else {
    device_->give_back(*s, behind);
  }
  s = nullptr;
  room_changed_ = true;
}

/// The slab takes the slot for somebody else; the values are on the host.
inline void engine::forget_device_copy(tensor_record& r) noexcept {
  order_.calls().tell(options_.observer.given_back, r.device->begin, r.device->bytes);
  window_held_ -= r.device->bytes;
  row(r).freed_bytes += r.life_bytes;
  r.device = nullptr;
  r.readers = {};
}

inline void engine::timed_span::begin() {
  if (engine_->history_->samples()) engine_->history_->wait_begins(engine_->compute());
  if (engine_->planner_) engine_->planner_->recorder.wait_begins();
}
inline void engine::timed_span::end() noexcept {
  try {
    if (engine_->history_->samples()) engine_->history_->wait_ends(engine_->compute());
    if (engine_->planner_) engine_->planner_->recorder.wait_ends();
  } catch (...) {
    if (engine_->planner_) engine_->planner_->recorder.spoil();
    if (!engine_->kept_error_) engine_->kept_error_ = std::current_exception();
  }
}

inline void engine::put_behind(stream_id s, const stream_clock& needed, const purpose& what) {
  if (order_.is_behind(s, needed)) return;
  const timed_span exposed(*this, s == compute_id);
  order_.put_behind(s, needed, what);
}

/// Whether it may be enqueued together with its neighbours. A capture loses batches.
inline bool engine::is_small(const tensor_record& r, stream_id s) const noexcept {
  return r.life_bytes < options_.batch_copies_below && s != compute_id && !capturing_;
}

/// A copy out: behind the writer of the device slot and behind the last copy in from the host slot. A small one is
/// enqueued with its neighbours by enqueue_copies_out(), before the slot can be somebody else's: it has not been stowed
/// until then. One that has to wait for more than those before it begins a batch of its own, so none waits for what
/// another needs.
inline void engine::copy_out(tensor_record& r) {
  stream_clock needed = r.written;
  needed.join(r.host_read);
  const bool small = is_small(r, out_id_);
  if (!small || leaving_.full() || !order_.is_behind(out_id_, needed)) enqueue_copies_out();
  order_.put_behind(out_id_, needed, r.as_purpose());
  leaving_.add(r.host->begin, r.device->begin, r.life_bytes, {&r, r.device});
  if (!small) enqueue_copies_out();
}

/// The one place that issues copies out.
inline void engine::enqueue_copies_out() {
  if (leaving_.empty()) return;
  const gathering until_here(*this);
  const std::span<const copy_batch::member> stowed = leaving_.members();
  tensor_record& r = *stowed.front().tensor;
  const purpose what{r.name, r.position.index, order_.name(out_id_)};
  const timed_span exposed(*this, out_id_ == compute_id);
  const observed_range range(options_.ranges, range_kind::copy_out, r.name, r.position.index);
  if (planner_) planner_->recorder.copy_begins(link_way::out, leaving_.bytes(), order_.handle(out_id_));
  if (stowed.size() == 1) {
    order_.calls().copy(r.host->begin, r.device->begin, r.life_bytes, cudaMemcpyDeviceToHost, order_.handle(out_id_),
                        what);
  } else {
    leaving_.enqueue(order_.calls(), order_.handle(out_id_), cudaMemcpyDeviceToHost, what);
  }
  const std::uint64_t point =
      out_id_ == compute_id ? order_.next_point(compute_id) : order_.record(out_id_, r.as_purpose());
  if (planner_) planner_->recorder.copy_ends(link_way::out, order_.handle(out_id_));
  for (const copy_batch::member& m : stowed) has_left(*m.tensor, point);
  leaving_.clear();
}

/// Its copy out is over at `point` of that stream.
inline void engine::has_left(tensor_record& r, std::uint64_t point) noexcept {
  r.host_written = {};
  r.host_written.join(out_id_, point);
  r.readers.join(out_id_, point);
  r.on_host = true;
  r.rank = ++stowed_;
  link_stowed(r);
  row(r).bytes_out += r.life_bytes;
  row(r).planned_bytes += r.life_bytes;
  now_.bytes_out += r.life_bytes;
  ++now_.copies_out;
  host_held_ += r.host->bytes;
  now_.host_peak_bytes = std::max(now_.host_peak_bytes, host_held_);
  if (r.leases == 0) keep(r);
}

/// A copy in: behind the copy out and behind all users of the target. A small one is enqueued with its neighbours, as a
/// copy out is, by enqueue_copies_in(); its target stays in use until then. Takes the target back if that fails.
inline void engine::copy_in(tensor_record& r, slot& target) {
  const bool small = is_small(r, in_id_);
  try {
    stream_clock needed = target.behind;
    needed.join(r.host_written);
    // Leases that ended since the last look ahead often ended together, with nothing enqueued in between: the first
    // copy that has to wait for one of them waits for the last.
    const std::uint64_t used = needed.at[compute_id];
    if (used > looked_ahead_at_ && used > order_.clock_of(in_id_).at[compute_id]) {
      needed.join(compute_id, order_.last_point(compute_id));
    }
    if (!small || arriving_.full() || !order_.is_behind(in_id_, needed)) enqueue_copies_in();
    order_.put_behind(in_id_, needed, r.as_purpose());
  } catch (...) {
    slot* taken = &target;
    free_slot(r, taken, order_.next_points());
    throw;
  }
  arriving_.add(target.begin, r.host->begin, r.life_bytes, {&r, &target});
  if (!small) enqueue_copies_in();
}

/// The one place that issues copies in.
inline void engine::enqueue_copies_in() {
  if (arriving_.empty()) return;
  const gathering until_here(*this);
  const std::span<const copy_batch::member> fetched = arriving_.members();
  tensor_record& r = *fetched.front().tensor;
  const slot& target = *fetched.front().device;
  const purpose what{r.name, r.position.index, order_.name(in_id_)};
  const timed_span exposed(*this, in_id_ == compute_id);
  const observed_range range(options_.ranges, range_kind::copy_in, r.name, r.position.index);
  if (planner_) planner_->recorder.copy_begins(link_way::in, arriving_.bytes(), order_.handle(in_id_));
  if (fetched.size() == 1) {
    order_.calls().copy(target.begin, r.host->begin, r.life_bytes, cudaMemcpyHostToDevice, order_.handle(in_id_), what);
  } else {
    arriving_.enqueue(order_.calls(), order_.handle(in_id_), cudaMemcpyHostToDevice, what);
  }
  const std::uint64_t point =
      in_id_ == compute_id ? order_.next_point(compute_id) : order_.record(in_id_, r.as_purpose());
  if (planner_) planner_->recorder.copy_ends(link_way::in, order_.handle(in_id_));
  for (const copy_batch::member& m : fetched) has_arrived(*m.tensor, *m.device, point);
  arriving_.clear();
}

/// Its copy in is over at `point` of that stream.
inline void engine::has_arrived(tensor_record& r, slot& target, std::uint64_t point) noexcept {
  r.device = &target;
  r.written = {};
  r.written.join(in_id_, point);
  r.readers = {};
  r.host_read.join(in_id_, point);
  row(r).bytes_in += r.life_bytes;
  now_.bytes_in += r.life_bytes;
  ++now_.copies_in;
  keep(r);
}

/// What has been gathered and has not left or arrived: values stay where they are, targets go back. Copies may have
/// been enqueued all the same, without a point behind them: whoever gets the memory goes behind one to come.
inline engine::gathering::~gathering() {
  if (engine_.leaving_.empty() && engine_.arriving_.empty()) return;
  if (engine_.planner_) engine_.planner_->recorder.spoil();
  for (const copy_batch::member& m : engine_.leaving_.members())
    m.tensor->readers.join(engine_.out_id_, engine_.order_.next_point(engine_.out_id_));
  engine_.leaving_.clear();
  for (const copy_batch::member& m : engine_.arriving_.members()) {
    m.tensor->host_read.join(engine_.in_id_, engine_.order_.next_point(engine_.in_id_));
    slot* taken = m.device;
    engine_.free_slot(*m.tensor, taken, engine_.order_.next_points());
  }
  engine_.arriving_.clear();
}

/// The backward pass uses last what the forward pass stowed first: copies in are issued in the reverse order of
/// stowing, as far as the window has room that nothing needed sooner occupies.
inline void engine::fetch_ahead() {
  if (!may_fetch_ahead() || !room_changed_) return;
  const gathering until_here(*this);
  for (tensor_record* r = last_stowed_; r != nullptr; r = r->stowed_before) {
    if (r->device != nullptr || r->state != life::alive) continue;
    slot* const target = take_slot(*r, nullptr, false, r->rank, in_id_);
    if (target == nullptr) break;
    copy_in(*r, *target);
  }
  enqueue_copies_in();
  room_changed_ = false;
  looked_ahead_at_ = order_.last_point(compute_id);
}

inline void engine::link_stowed(tensor_record& r) noexcept {
  r.stowed_before = last_stowed_;
  r.stowed_after = nullptr;
  if (last_stowed_ != nullptr) last_stowed_->stowed_after = &r;
  last_stowed_ = &r;
}

inline void engine::unlink_stowed(tensor_record& r) noexcept {
  (r.stowed_after != nullptr ? r.stowed_after->stowed_before : last_stowed_) = r.stowed_before;
  if (r.stowed_before != nullptr) r.stowed_before->stowed_after = r.stowed_after;
  r.stowed_before = nullptr;
  r.stowed_after = nullptr;
}

}  // namespace hostoffload::inline v0::detail
