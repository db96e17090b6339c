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
  static_cast<void>(order_.calls().play_to(order_.calls().size()));  // what is told of slots at the end
  order_.end_playing(tape_.points());
  in_step_ = false;
  if (planner_) planner_->end_repeated_step();
  history_->end(tape_.end_playing(steps_), compute());
  return true;
}

inline void engine::begin_writing() noexcept {
  const bool written = !capturing_ && options_.ranges.began == nullptr;
  tape_.begin_step(written);
  if (!tape_.writing()) return;
  order_.calls().begin_writing(order_.last_points());
  writing_from_ = order_.last_points();
}

inline void engine::end_writing() {
  if (!tape_.writing()) return;
  if (!order_.calls().end_writing() || several_branches_) tape_.spoil();
  std::array<std::uint64_t, max_streams> points = order_.last_points();
  for (std::size_t s = 0; s < max_streams; ++s) points[s] -= std::min(points[s], writing_from_[s]);
  tape_.end_step(now_, points);
}

inline void engine::stop_writing() noexcept {
  if (!tape_.writing()) return;
  tape_.spoil();
  static_cast<void>(order_.calls().end_writing());
}

inline void engine::write_request(taped_request r) noexcept {
  r.calls_end = order_.calls().size();
  tape_.write(r);
}

inline void engine::write_lease(request_kind is, const lease_request& q) noexcept {
  if (!alone(q.line)) return tape_.spoil();
  write_request({.tensor = q.tensor,
                 .asked = taped_request::key(is, q.stream, q.last_use),
                 .data = q.data,
                 .generation = static_cast<std::uint32_t>(q.generation - q.tensor->generation_at_start)});
}

inline void engine::write_make(const lease_request& q) noexcept {
  if (!tape_.writing()) return;
  if (!alone(q.line)) return tape_.spoil();
  const std::uint32_t first = tape_.rooms();
  for (const tensor_record* m : q.tensor->made_by->members) tape_.write_room(m->makes_at);
  write_request({.tensor = q.tensor,
                 .asked = taped_request::key(request_kind::make, q.stream, q.last_use),
                 .first_room = first,
                 .again = q.making.again});
}

inline void engine::write_end(tensor_record& r, std::uint64_t generation, stream_id on, bool writing,
                              bool left_by_exception) noexcept {
  if (!tape_.writing()) return;
  if (writing && left_by_exception) return tape_.spoil();
  write_request({.tensor = &r,
                 .asked = taped_request::key(request_kind::end, on, writing),
                 .generation = static_cast<std::uint32_t>(generation - r.generation_at_start)});
}

/// Enqueues what a request leads to; if that fails, the engine is where the request finds it.
inline bool engine::play_calls(const taped_request& r) {
  if (!order_.calls().is_at(r.calls_end)) {
    const cudaError_t code = order_.calls().play_to(r.calls_end);
    if (code != cudaSuccess) {
      catch_up_from_tape(code);
      return false;
    }
  }
  tape_.advance();
  return true;
}

inline void engine::grant_played(lease_request& q, const taped_request& r) noexcept {
  q.generation = q.tensor->generation + r.generation;
  q.data = r.data;
  q.granted = true;
}

/// Grants the lease if the tape has it next. Otherwise the engine is where the request finds it.
inline bool engine::play_lease(request_kind is, lease_request& q) {
  const taped_request& next = tape_.next();
  if (next.tensor != q.tensor || next.asked != taped_request::key(is, q.stream, q.last_use)) {
    catch_up_from_tape(cudaSuccess);
    q.line = current_line();
    return false;
  }
  if (!play_calls(next)) {
    q.line = current_line();
    return false;
  }
  grant_played(q, next);
  return true;
}

/// The same where it may be that the values have to be made.
inline std::optional<outcome> engine::play_next(lease_request& q) {
  const taped_request& next = tape_.next();
  const bool made_first = next.is() == request_kind::make;
  const request_kind is = made_first ? request_kind::make : request_kind::lease;
  if (next.tensor != q.tensor || next.asked != taped_request::key(is, q.stream, q.last_use)) {
    catch_up_from_tape(cudaSuccess);
  } else if (play_calls(next)) {
    if (!made_first) {
      grant_played(q, next);
      return outcome::granted;
    }
    q.line = current_line();
    const maker& made_by = *q.tensor->made_by;
    for (std::size_t i = 0; i < made_by.members.size(); ++i) made_by.members[i]->makes_at = tape_.room(next, i);
    begin_branch(q, next.again);
    return outcome::make;
  }
  q.line = current_line();
  return std::nullopt;
}

/// Whether this was the end of a lease that the tape has next, or of one that is void.
inline bool engine::play_end(tensor_record& r, std::uint64_t generation, stream_id on, bool writing,
                             bool left_by_exception) noexcept {
  try {
    const taped_request& next = tape_.next();
    if (next.tensor == &r && next.asked == taped_request::key(request_kind::end, on, writing) &&
        !(writing && left_by_exception)) {
      return generation != r.generation + next.generation || play_calls(next);
    }
    catch_up_from_tape(cudaSuccess);
  } catch (...) {
    if (!kept_error_) kept_error_ = std::current_exception();
    return true;
  }
  return false;
}

/// The requests that were played are taken once more, without their calls; the next call after these fails with
/// `failure`, if there is one.
inline void engine::catch_up_from_tape(cudaError_t failure) {
  const std::span<const taped_request> played = tape_.stop();
  order_.calls().pass_over_played(failure);
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
      lease_request& q = being_made.emplace_back();
      q.tensor = t.tensor;
      q.stream = t.on();
      q.last_use = t.flag();
      q.line = line;
      if (t.is() == request_kind::produce) {
        begin_produce(q);
      } else {
        static_cast<void>(request(q, true));
      }
      if (t.is() != request_kind::make) being_made.pop_back();
    }
  }
  inline_line_ = outer;
}

inline void engine::catch_up_quietly() noexcept {
  try {
    catch_up();
  } catch (...) {
    if (!kept_error_) kept_error_ = std::current_exception();
  }
}

/// All that decisions of the step to come depend on, beside what is asked. No tensor holds values.
inline void engine::print_state() {
  state_.clear();
  state_.add(reserve_);
  state_.add(reserve_known_ ? 1 : 0);
  state_.add(room_changed_ ? 1 : 0);
  state_.add(planner_ && planner_->plan() ? 1 : 0);
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
