#pragma once
// Steps that come again are played from a tape. Part of engine.hpp.
//
// While one is played the engine stays as it was at its beginning. That holds for the next one too, since the points
// of streams keep their numbers (stream_order::end_playing). When something else is asked than was the last time, the
// requests so far are taken once more, without their calls: then the engine is where a step that was not played would
// be, and goes on from there. A call that fails is treated in the same way, and fails once more where it is known what
// for.

#include <hostoffload/schedule/engine.hpp>

namespace hostoffload::inline v0::detail {

/// Whether the step that begins is played.
inline bool engine::begin_repeated(bool timed) {
  if (options_.ranges.began != nullptr) return false;  // who has to be told of each range as it comes
  if (tape_.wants_state()) {
    print_state();
    tape_.look(state_.numbers);
  }
  if (timed || !tape_.is_good()) return false;
  tape_.begin_playing();
  order_.begin_playing();
  in_step_ = true;
  return true;
}

/// The played step ends; false when it is not one, or is not over.
inline bool engine::end_repeated() {
  if (!tape_.playing()) return false;
  if (tape_.next().tensor != nullptr) {
    catch_up();
    return false;
  }
  static_cast<void>(
      order_.calls().play(tape_.calls_so_far(), order_.calls().size()));  // what is told of slots at the end
  order_.end_playing(tape_.points());
  in_step_ = false;
  step_report& done = tape_.end_playing(steps_);
  if (planner_) {
    planner_->end_repeated_step();
    report_choice(done);
    planner_->clock_ends(done.planned, compute());
  }
  history_->end(done, compute());
  return true;
}

inline void engine::begin_writing() noexcept {
  const bool written = !capturing_ && options_.ranges.began == nullptr;
  tape_.begin_step(written);
  if (!tape_.writing()) return;
  order_.calls().begin_writing(order_.last_points());
  calls_written_ = 0;
  writing_from_ = order_.last_points();
}

inline void engine::end_writing() {
  if (!tape_.writing()) return;
  if (!order_.calls().end_writing() || several_branches_) tape_.spoil();
  std::array<std::uint64_t, max_streams> points = order_.last_points();
  for (std::size_t s = 0; s < max_streams; ++s) points[s] -= std::min(points[s], writing_from_[s]);
  tape_.end_step(now_, points);
  if (planner_) planner_->keep_shape();
}

/// The step is not to be repeated: it is over too soon, or the trainer may go on after a request that failed. What that
/// one led to is in the list, and the next one's calls would be played with it.
inline void engine::stop_writing() noexcept {
  if (!tape_.writing()) return;
  tape_.spoil();
  static_cast<void>(order_.calls().end_writing());
}

inline void engine::write_request(taped_request r) noexcept {
  r.calls_end = order_.calls().size();
  r.first_call = std::exchange(calls_written_, r.calls_end);
  tape_.write(r);
}

inline void engine::write_lease(request_kind is, const lease_request& q) noexcept {
  if (!alone(q.line)) return tape_.spoil();
  write_request({.tensor = q.tensor,
                 .data = q.data,
                 .asked = taped_request::key(is, q.stream, q.last_use),
                 .number = static_cast<std::uint32_t>(q.generation - q.tensor->generation_at_start)});
}

inline void engine::write_make(const lease_request& q) noexcept {
  if (!tape_.writing()) return;
  if (!alone(q.line)) return tape_.spoil();
  const std::uint32_t first = tape_.rooms();
  for (tensor_record* m : q.tensor->made_by->members) tape_.write_room({m, m->makes_at});
  tape_.write_room({});
  const request_kind is = q.making.again ? request_kind::make_again : request_kind::make;
  write_request({.tensor = q.tensor, .asked = taped_request::key(is, q.stream, q.last_use), .number = first});
}

inline void engine::write_end(tensor_record& r, std::uint64_t generation, stream_id on, bool writing,
                              bool left_by_exception) noexcept {
  if (!tape_.writing()) return;
  if (writing && left_by_exception) return tape_.spoil();
  write_request({.tensor = &r,
                 .asked = taped_request::key(request_kind::end, on, writing),
                 .number = static_cast<std::uint32_t>(generation - r.generation_at_start)});
}

/// Enqueues what a request leads to; if that fails, the engine has to catch up.
inline bool engine::play_calls(const taped_request& r) {
  if (r.first_call != r.calls_end && !order_.calls().play(r.first_call, r.calls_end)) return false;
  tape_.advance();
  return true;
}

inline void engine::grant_played(granted_lease& granted, const taped_request& r) noexcept {
  granted.generation = granted.tensor->generation + r.number;
  granted.data = r.data;
}

inline bool engine::play_next_lease(granted_lease& granted, tensor_record& r, cudaStream_t on, bool last_use) {
  if (!tape_.playing() || on != compute()) return false;
  const taped_request& next = tape_.next();
  if (!next.asks(r, taped_request::key(request_kind::lease, compute_id, last_use)) || !play_calls(next)) return false;
  granted.tensor = &r;
  granted.stream = compute_id;
  grant_played(granted, next);
  return true;
}

inline void engine::end_lease(tensor_record& r, std::uint64_t generation, stream_id on, bool writing,
                              bool left_by_exception) noexcept {
  if (tape_.playing() && !(writing && left_by_exception)) {
    const taped_request& next = tape_.next();
    if (next.asks(r, taped_request::key(request_kind::end, on, writing))) {
      if (generation != r.generation + next.number || play_calls(next)) return;  // void, or as the last time
    }
  }
  end_as_asked(r, generation, on, writing, left_by_exception);
}

/// Grants the lease if the tape has it next. Otherwise the engine is where the request finds it.
inline bool engine::play_lease(request_kind is, lease_request& q) {
  const taped_request& next = tape_.next();
  if (next.asks(*q.tensor, taped_request::key(is, q.stream, q.last_use)) && play_calls(next)) {
    grant_played(q, next);
    q.granted = true;
    return true;
  }
  catch_up_from_tape();
  q.line = current_line();
  return false;
}

/// What becomes of a new request, where it may be that the values have to be made; nothing if that is to be decided.
inline std::optional<outcome> engine::play_next(lease_request& q) {
  if (!tape_.playing()) {
    q.line = current_line();
    return std::nullopt;
  }
  const taped_request& next = tape_.next();
  if (!next.makes()) {
    return play_lease(request_kind::lease, q) ? std::optional(outcome::granted) : std::nullopt;
  }
  if (next.asks(*q.tensor, taped_request::key(next.is(), q.stream, q.last_use)) && play_calls(next)) {
    q.line = current_line();
    for (const step_tape::room* room = tape_.rooms_of(next); room->of != nullptr; ++room) room->of->makes_at = room->at;
    begin_branch(q, next.is() == request_kind::make_again);
    return outcome::make;
  }
  catch_up_from_tape();
  q.line = current_line();
  return std::nullopt;
}

/// The requests that were played are taken once more, without their calls; the call that failed, if one did, fails
/// once more.
inline void engine::catch_up_from_tape() {
  order_.calls().pass_over(tape_.calls_so_far());
  const std::span<const taped_request> played = tape_.stop();
  begin_counting();
  std::deque<lease_request> being_made;
  branch* const outer = inline_line_;
  for (const taped_request& t : played) {
    branch* const line = being_made.empty() ? &root_line_ : &being_made.back().making;
    inline_line_ = line;
    if (t.is() == request_kind::end) {
      end_lease(*t.tensor, t.tensor->generation, t.on(), t.flag(), false);
    } else if (t.is() == request_kind::made) {
      finish_making_and_grant(being_made.back());
      being_made.pop_back();
    } else {
      lease_request& q = being_made.emplace_back(*t.tensor, t.on(), t.flag());
      q.line = line;
      if (t.is() == request_kind::produce) {
        begin_produce(q);
      } else {
        static_cast<void>(request(q, true));
      }
      if (!t.makes()) being_made.pop_back();
    }
  }
  inline_line_ = outer;
}

/// Whether that went well; the error is kept if not.
inline bool engine::catch_up_quietly() noexcept {
  try {
    catch_up();
    return true;
  } catch (...) {
    if (!kept_error_) kept_error_ = std::current_exception();
    return false;
  }
}

/// All that decisions of the step to come depend on, beside what is asked. No tensor holds values.
inline void engine::print_state() {
  state_.clear();
  state_.add(reserve_);
  state_.add(reserve_known_ ? 1 : 0);
  state_.add(room_changed_ ? 1 : 0);
  state_.add(planner_ && planner_->plan() != nullptr ? 1 : 0);
  if (window_) window_->print(state_);
  places_.print(state_);
  device_->print(state_);
  for (tensor_record* r : tensors_) {
    r->generation_at_start = r->generation;
    r->pattern.print(state_);
    state_.add(r->host_written);
    state_.add(r->host_read);
  }
  order_.print(state_);
}

}  // namespace hostoffload::inline v0::detail
