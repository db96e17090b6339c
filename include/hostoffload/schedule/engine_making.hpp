#pragma once
// Define functions: slots for what they write, their running, and what becomes of it. Part of engine.hpp.

#include <hostoffload/schedule/engine.hpp>

namespace hostoffload::inline v0::detail {

/// Takes a slot for each tensor that the define function writes. Values that are here already are not written again:
/// what the function writes for them goes aside.
inline bool engine::begin_making(lease_request& q, bool oldest) {
  tensor_record& r = *q.tensor;
  const bool again = r.state == life::alive || q.line->recomputes();
  for (tensor_record* m : r.made_by->members) {
    throw_without_host_slot(*m);
    if (m->state == life::making)
      throw usage_error("tensor " + m->title() + " is being made or written while its group is needed");
    if (!again && m->state == life::alive) {
      throw usage_error("tensor " + m->title() + " still holds values while " + r.title() +
                        " of its group begins anew: end its life with co_await std::move(tensor)");
    }
  }
  try {
    stream_clock needed;
    for (tensor_record* m : r.made_by->members) {
      follow_plan(true);  // what leaves between the begins of two members may lie where the second goes
      slot* const taken = take_slot(*m, q.line, oldest, any_rank, compute_id);
      if (taken == nullptr) {
        abort_making(*r.made_by, false);
        return false;
      }
      use_begins(*taken, *m);
      needed.join(taken->behind);
      const bool here = m != &r && again && (m->state == life::none || m->device != nullptr || m->on_host);
      (here ? m->aside : m->device) = taken;
      m->makes_at = taken->begin;
      const bool as_chosen = m->made_again && m->state == life::alive && !here;
      if (again && m->in_window() && !as_chosen && planner_) planner_->mark_odd();
      if (here) continue;
      m->temporary = m->state == life::none && again;
      m->remaking = m->state == life::alive;
      m->state = life::making;
      if (!again && m->in_window()) fetching_ahead_ = false;
    }
    put_behind(compute_id, needed, r.as_purpose());
    follow_plan(false);
  } catch (...) {
    abort_making(*r.made_by, false);
    throw;
  }
  if (again) ++row(r).recomputed;
  trace([&](step_recorder& t) { t.making_begins(*r.made_by, q.line->maker_around(), again); });
  begin_branch(q, again);
  q.range.emplace(options_.ranges, again ? range_kind::recompute : range_kind::make, r.name, r.position.index);
  return true;
}

inline void engine::begin_branch(lease_request& q, bool again) noexcept {
  q.making = branch{};
  q.making.parent = q.line;
  q.making.making = q.tensor->made_by.get();
  q.making.again = again;
}

/// The slots go back; the tensors are as before. If the function has run, their next owners go behind all it may have
/// enqueued.
inline void engine::abort_making(const maker& what, bool has_run) noexcept {
  if (closed_) return;
  static_cast<void>(catch_up_quietly());
  stop_writing();
  if (has_run) trace([](step_recorder& t) { t.spoil(); });
  for (tensor_record* m : what.members) {
    const bool is_aside = m->aside != nullptr;
    if (!is_aside && m->state != life::making) continue;
    slot*& taken = is_aside ? m->aside : m->device;
    if (!is_aside) {
      m->state = m->remaking && !m->gone ? life::alive : life::none;
      if (!m->remaking) m->life_bytes = m->asked_bytes;
      m->temporary = false;
    }
    use_ends(*taken, *m);
    free_slot(*m, taken, has_run ? order_.next_points() : taken->behind);
    if (std::exchange(m->gone, false)) free_records_.push_back(m);
  }
}

/// A lease is granted next: until then no copy of a plan's may take the slot.
inline void engine::finish_making(tensor_record& r, const branch& under) {
  trace([&](step_recorder& t) { t.making_ends(*r.made_by); });
  stream_clock made;
  made.join(compute_id, order_.next_point(compute_id));
  std::exception_ptr failure;  // of a copy: all have their values nevertheless
  for (tensor_record* m : r.made_by->members) {
    if (m->aside != nullptr) {
      use_ends(*m->aside, *m);
      free_slot(*m, m->aside, made);
      continue;
    }
    m->state = life::alive;
    m->written = made;
    m->readers = {};
    ++m->generation;
    use_ends(*m->device, *m);
    m->unused = m != &r;
    if (m->treated_as() != choice::offload || m->temporary || follows_plan()) continue;
    try {
      copy_out(*m);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) {
    const gathering not_enqueued(*this);
    std::rethrow_exception(failure);
  }
  enqueue_copies_out();
  if (!under.recomputes()) drop_shared();
}

inline void engine::finish_making_and_grant(lease_request& q) try {
  if (play(request_kind::made, q)) return;
  finish_making(*q.tensor, *q.line);
  grant(q);
  write(request_kind::made, q);
} catch (...) {
  stop_writing();
  throw;
}

inline void engine::make_inline(lease_request& q) {
  q.made_by = q.tensor->made_by.get();
  branch* const outer = std::exchange(inline_line_, &q.making);
  try {
    q.made_by->call();
    throw_if_gone(q);
  } catch (...) {
    inline_line_ = outer;
    abort_making(*q.made_by, true);
    throw;
  }
  inline_line_ = outer;
  finish_making_and_grant(q);
}

/// Somebody destroyed the tensor while its define function ran.
inline void engine::throw_if_gone(const lease_request& q) {
  throw_if_closed();
  if (q.tensor->made_by.get() == q.made_by) return;
  throw_kept_error();
  throw usage_error("a tensor of a group was destroyed while the group was made");
}

/// The coroutine, ready to start; `waiter` if another one awaits it.
inline promise_base& engine::making_coroutine(lease_request& q, const promise_base* waiter) {
  q.made_by = q.tensor->made_by.get();
  try {
    if (waiter != nullptr) throw_unless_mine(*waiter);
    q.making_task = q.made_by->start();
    promise_base& child = task_access::unstarted(*q.making_task);
    child.line = &q.making;
    return child;
  } catch (...) {
    q.making_task.reset();
    abort_making(*q.made_by, true);
    throw;
  }
}

inline void engine::start_making(lease_request& q, promise_base& waiter) {
  promise_base& child = making_coroutine(q, &waiter);
  child.start_under(waiter);
  child.line = &q.making;
  loop_.put_first(child);
}

inline void engine::finish_waiting(lease_request& q) {
  if (q.failure) std::rethrow_exception(q.failure);
  if (q.granted) {
    throw_if_closed();
    if (q.generation == q.tensor->generation) return;
    throw_kept_error();
    throw usage_error("a tensor was destroyed between the grant of a lease on it and the end of the await");
  }
  try {
    task_access::promise(*q.making_task).take();
    throw_if_gone(q);
  } catch (...) {
    give_up(q);
    serve_waiters();
    throw;
  }
  q.making_task.reset();
  finish_making_and_grant(q);
  serve_waiters();
}

}  // namespace hostoffload::inline v0::detail
