#pragma once
// Leases: from a request to the end of the last use. Part of engine.hpp.

#include <hostoffload/schedule/engine.hpp>

namespace hostoffload::inline v0::detail {

inline branch* engine::current_line() noexcept {
  if (inline_line_ != nullptr) return inline_line_;
  branch* const line = loop_.current_line();
  return line != nullptr ? line : &root_line_;
}

inline void engine::resize(tensor_record& r, std::size_t bytes) {
  throw_if_closed();
  const auto fail = [&](const std::string& why) { throw usage_error("tensor " + r.title() + ": " + why); };
  if (bytes == 0 || bytes > r.bytes) {
    fail("is resized to " + std::to_string(bytes) + " bytes; it has at least one element, and at most the " +
         std::to_string(r.bytes) + " bytes that it was built for");
  }
  if (capturing_ && bytes != r.bytes)
    fail("is resized in a captured step, which uses the sizes that tensors were built for");
  if (!in_step_) fail("is resized outside a step: a size holds for one life");
  if (bytes == r.life_bytes) return;
  if (r.state == life::alive || (r.state == life::making && bytes > r.life_bytes)) {
    fail("is resized when it has its room: resize it before it is made, or to less while it is made");
  }
  if (r.state == life::making && r.remaking) {
    fail("is made again with another size than before: recomputation has to give the same values");
  }
  r.life_bytes = bytes;
}

inline lease_request engine::request_for(tensor_record& r, cudaStream_t on, bool last_use) {
  throw_if_closed();
  lease_request q;
  q.tensor = &r;
  const std::size_t known = order_.count();
  q.stream = order_.find(on);
  if (order_.count() != known) warn_if_serialised(on);
  q.last_use = last_use;
  q.line = current_line();
  return q;
}

inline outcome engine::request(lease_request& q, bool oldest) {
  throw_kept_error();
  tensor_record& r = *q.tensor;
  if (!in_step_)
    throw usage_error("tensor " + r.title() + ": leases are taken within a step: scheduler.run(…), or a step object");
  throw_without_host_slot(r);
  if (r.state == life::making) {
    if (r.made_by != nullptr && q.line->makes(r.made_by.get())) {
      throw usage_error("tensor " + r.title() +
                        ": its define function awaits the tensor itself, directly or through others");
    }
    if (r.leases != 0) throw usage_error("tensor " + r.title() + ": its writable lease has to end before it is read");
    return outcome::being_made;
  }
  if (r.leases == 0) follow_plan(true);
  if (r.device == nullptr && r.on_host) {
    slot* const target = take_slot(r, q.line, oldest, any_rank, in_id_);
    if (target == nullptr) return outcome::no_room;
    copy_in(r, *target);
    enqueue_copies_in();
    fetching_ahead_ = true;
    ++row(r).late_fetches;
    ++now_.late_fetches;
  }
  if (r.device == nullptr) {
    if (r.made_by == nullptr) {
      throw usage_error("tensor " + r.title() + " has no values: produce it in this step, or define how it is made");
    }
    return begin_making(q, oldest) ? outcome::make : outcome::no_room;
  }
  grant(q);
  return outcome::granted;
}

/// Takes a slot for each tensor that the define function writes. Values that are here already are not written again:
/// what the function writes for them goes aside.
inline bool engine::begin_making(lease_request& q, bool oldest) {
  tensor_record& r = *q.tensor;
  const bool again = r.state == life::alive || q.line->recomputes();
  for (tensor_record* m : r.made_by->members) {
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
      slot* const taken = take_slot(*m, q.line, oldest, any_rank, compute_id);
      if (taken == nullptr) {
        abort_making(*r.made_by, false);
        return false;
      }
      use_begins(*taken, *m);
      needed.join(taken->behind);
      const bool here = m != &r && again && (m->state == life::none || m->device != nullptr || m->on_host);
      (here ? m->aside : m->device) = taken;
      if (again && m->in_window() && planner_) planner_->mark_odd();
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
  q.making = branch{};
  q.making.parent = q.line;
  q.making.making = r.made_by.get();
  q.making.again = again;
  q.range.emplace(options_.ranges, again ? range_kind::recompute : range_kind::make, r.name, r.position.index);
  return true;
}

/// The slots go back; the tensors are as before. If the function has run, their next owners go behind all it may have
/// enqueued.
inline void engine::abort_making(const maker& what, bool has_run) noexcept {
  if (closed_) return;
  if (has_run) trace([](step_recorder& t) { t.spoil(); });
  for (tensor_record* m : what.members) {
    const bool is_aside = m->aside != nullptr;
    if (!is_aside && m->state != life::making) continue;
    slot*& taken = is_aside ? m->aside : m->device;
    if (!is_aside) m->state = m->remaking && !m->gone ? life::alive : life::none;
    use_ends(*taken, *m);
    free_slot(*m, taken, has_run ? order_.next_points() : taken->behind);
    if (std::exchange(m->gone, false)) free_records_.push_back(m);
  }
}

inline void engine::finish_making(tensor_record& r, const branch& under) {
  trace([&](step_recorder& t) { t.making_ends(*r.made_by); });
  stream_clock made;
  made.join(compute_id, order_.next_point(compute_id));
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
    if (m->in_window() && !m->temporary && !follows_plan()) copy_out(*m);
  }
  enqueue_copies_out();
  if (!under.recomputes()) drop_shared();
  follow_plan(false);
}

inline void engine::make_inline(lease_request& q) {
  q.made_by = q.tensor->made_by;
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
  finish_making(*q.tensor, *q.line);
  grant(q);
}

/// Somebody destroyed the tensor while its define function ran.
inline void engine::throw_if_gone(const lease_request& q) {
  throw_if_closed();
  if (q.tensor->made_by == q.made_by) return;
  throw_kept_error();
  throw usage_error("a tensor of a group was destroyed while the group was made");
}

/// The coroutine, ready to start; `waiter` if another one awaits it.
inline promise_base& engine::making_coroutine(lease_request& q, const promise_base* waiter) {
  q.made_by = q.tensor->made_by;
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

inline void engine::finish(lease_request& q) {
  if (q.failure) std::rethrow_exception(q.failure);
  if (q.granted) return;
  try {
    task_access::promise(*q.making_task).take();
    throw_if_gone(q);
  } catch (...) {
    give_up(q);
    serve_waiters();
    throw;
  }
  q.making_task.reset();
  finish_making(*q.tensor, *q.line);
  grant(q);
  serve_waiters();
}

inline void engine::lease_now(lease_request& q) {
  switch (request(q, true)) {
    case outcome::granted:
      return;
    case outcome::no_room:
      throw_no_room(q);
    case outcome::being_made:
      throw usage_error("tensor " + q.tensor->title() +
                        " is being made by a coroutine: co_await it, fetch() cannot wait");
    case outcome::make:
      break;
  }
  if (!q.tensor->made_by->is_coroutine()) {
    make_inline(q);
    return;
  }
  promise_base& root = making_coroutine(q, nullptr);
  branch* const outer = std::exchange(inline_line_, nullptr);
  try {
    run_loop(root);
  } catch (...) {
    inline_line_ = outer;
    give_up(q);
    throw;
  }
  inline_line_ = outer;
  finish(q);
}

inline void engine::grant(lease_request& q) {
  q.range.reset();
  tensor_record& r = *q.tensor;
  put_behind(q.stream, r.written, r.as_purpose());
  const bool first = r.leases == 0;
  trace([&](step_recorder& t) { t.lease_begins(r, q.line->maker_around(), first); });
  if (first) {
    use_begins(*r.device, r);
    r.pattern.begins(++uses_);
  }
  if (q.last_use || r.pattern.past_longest_gap()) fetching_ahead_ = true;
  try {
    fetch_ahead();
  } catch (...) {
    if (first) {
      use_ends(*r.device, r);
      if (r.on_host) keep(r);
    }
    throw;
  }
  ++r.leases;
  order_.lease_begins(q.stream);
  r.unused = false;
  r.last_use = r.last_use || q.last_use;
  q.generation = r.generation;
  q.granted = true;
  if (first) follow_plan_in_use();
}

/// A writable lease for code that fills the tensor itself.
inline void engine::begin_produce(lease_request& q) {
  throw_kept_error();
  tensor_record& r = *q.tensor;
  if (!in_step_)
    throw usage_error("tensor " + r.title() + ": produce within a step: scheduler.run(…), or a step object");
  throw_without_host_slot(r);
  follow_plan(true);
  if (r.state != life::none) {
    throw usage_error("tensor " + r.title() +
                      ": produced while it still holds values: end its life first, by a last use "
                      "(std::move), or use one instance per micro batch in flight");
  }
  if (r.placed == choice::remat && r.made_by == nullptr) {
    throw usage_error("tensor " + r.title() +
                      " is placed as remat and nothing says how it is made again: give it to define");
  }
  slot* taken = take_slot(r, q.line, true, any_rank, q.stream);
  if (taken == nullptr) throw_no_room(q);
  try {
    put_behind(q.stream, taken->behind, r.as_purpose());
  } catch (...) {
    free_slot(r, taken, taken->behind);
    throw;
  }
  trace([&](step_recorder& t) { t.produce_begins(r, q.line->maker_around()); });
  use_begins(*taken, r);
  r.device = taken;
  r.state = life::making;
  r.written = {};
  r.readers = {};
  r.leases = 1;
  order_.lease_begins(q.stream);
  r.pattern.begins(++uses_);
  if (r.in_window()) fetching_ahead_ = false;
  q.generation = ++r.generation;
  q.granted = true;
  follow_plan_in_use();
}

inline void engine::end_lease(tensor_record& r, std::uint64_t generation, stream_id on, bool writing,
                              bool left_by_exception) noexcept {
  if (closed_ || generation != r.generation) return;  // of a life that is over
  try {
    const std::uint64_t released = order_.lease_ends(on);
    (writing ? r.written : r.readers).join(on, released);
    if (writing) r.state = life::alive;
    if (--r.leases != 0) return;
    r.pattern.ends(++uses_);
    trace([&](step_recorder& t) { t.use_ends(r); });
    use_ends(*r.device, r);
    const bool stays = r.last_use || r.temporary || follows_plan();
    if (writing && left_by_exception) {
      trace([](step_recorder& t) { t.spoil(); });
      finish_life(r, false);
    } else {
      if (r.in_window() && !r.on_host && !stays) copy_out(r);
      enqueue_copies_out();
      settle(r);
    }
    follow_plan(false);
    if (r.in_window() && may_fetch_ahead() && order_.next_point(on) == released) order_.record(on, r.as_purpose());
    serve_waiters();
  } catch (...) {
    if (!kept_error_) kept_error_ = std::current_exception();
  }
}

inline void engine::finish_life(tensor_record& r, bool by_last_use) noexcept {
  if (r.device != nullptr) {
    free_slot(r, r.device, last_users(r));
  }
  if (r.on_host) {
    r.on_host = false;
    host_held_ -= r.host->bytes;
    unlink_stowed(r);
  }
  r.state = life::none;
  if (by_last_use && in_step_) {
    trace([&](step_recorder& t) { t.life_is_over(r); });
    note(r, use_event::over);
  }
  r.life_bytes = r.bytes;
  r.last_use = false;
  r.unused = false;
  ++r.generation;
  if (std::exchange(r.temporary, false)) {
    r.pattern.forget();
  } else {
    r.pattern.finish(by_last_use);
  }
}

}  // namespace hostoffload::inline v0::detail
