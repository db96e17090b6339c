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
  catch_up();
  if (r.state == life::alive || (r.state == life::making && bytes > r.life_bytes)) {
    fail("is resized when it has its room: resize it before it is made, or to less while it is made");
  }
  if (r.state == life::making && r.remaking) {
    fail("is made again with another size than before: recomputation has to give the same values");
  }
  r.life_bytes = bytes;
  if (r.state == life::none) r.asked_bytes = bytes;
  tape_.spoil();
}

inline stream_id engine::stream_of_lease(cudaStream_t on) {
  throw_if_closed();
  if (on == compute()) return compute_id;
  const std::size_t known = order_.count();
  const stream_id id = order_.find(on, [this] {
    catch_up();
    tape_.interrupt();  // the id may have been another stream's
  });
  if (order_.count() != known) warn_if_serialised(on);
  return id;
}

/// A stream that leases are taken on for the first time: does it take turns with the compute stream?
inline void engine::warn_if_serialised(cudaStream_t on) {
  const bool legacy = is_legacy_default(on);
  if (legacy == is_legacy_default(compute())) return;
  unsigned flags = 0;
  check(cudaStreamGetFlags(legacy ? compute() : on, &flags), "cudaStreamGetFlags");
  constexpr std::string_view warning =
      "leases are taken on the legacy default stream and on a blocking stream, which wait for each other: create the "
      "other one with cudaStreamNonBlocking";
  if ((flags & cudaStreamNonBlocking) == 0 && std::find(warnings_.begin(), warnings_.end(), warning) == warnings_.end())
    warnings_.push_back(warning);
}

inline outcome engine::request(lease_request& q, bool oldest) try {
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
    if (!begin_making(q, oldest)) return outcome::no_room;
    write_make(q);
    return outcome::make;
  }
  grant(q);
  write(request_kind::lease, q);
  return outcome::granted;
} catch (...) {
  stop_writing();
  throw;
}

inline void engine::lease_now(lease_request& q) {
  const std::optional<outcome> played = play_next(q);
  switch (played ? *played : request(q, true)) {
    case outcome::granted:
      return;
    case outcome::no_room:
      stop_writing();
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
    trace([](step_recorder& t) { t.spoil(); });
    throw;
  }
  ++r.leases;
  order_.lease_begins(q.stream);
  r.unused = false;
  r.last_use = r.last_use || q.last_use;
  q.generation = r.generation;
  q.data = r.device->begin;
  q.granted = true;
  if (first) follow_plan_in_use();
}

/// A writable lease for code that fills the tensor itself.
inline void engine::begin_produce(lease_request& q) try {
  throw_kept_error();
  if (play(request_kind::produce, q)) return;
  q.line = current_line();
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
  q.data = taken->begin;
  q.granted = true;
  follow_plan_in_use();
  write(request_kind::produce, q);
} catch (...) {
  stop_writing();
  throw;
}

inline void engine::end_unplayed(tensor_record& r, std::uint64_t generation, stream_id on, bool writing,
                                 bool left_by_exception) noexcept {
  if (closed_ || generation != r.generation) return;  // of a life that is over
  try {
    const std::uint64_t released = order_.lease_ends(on);
    (writing ? r.written : r.readers).join(on, released);
    if (writing) r.state = life::alive;
    if (--r.leases != 0) {
      write_end(r, generation, on, writing, left_by_exception);
      return;
    }
    r.pattern.ends(++uses_);
    trace([&](step_recorder& t) { t.use_ends(r); });
    use_ends(*r.device, r);
    const bool stays = r.last_use || r.temporary || follows_plan();
    if (writing && left_by_exception) {
      trace([](step_recorder& t) { t.spoil(); });
      finish_life(r, false);
    } else {
      if (r.treated_as() == choice::offload && !r.on_host && !stays) copy_out(r);
      enqueue_copies_out();
      settle(r);
    }
    follow_plan(false);
    if (r.in_window() && may_fetch_ahead() && order_.next_point(on) == released) order_.record(on, r.as_purpose());
    write_end(r, generation, on, writing, left_by_exception);
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
  if (!r.temporary) r.asked_bytes = r.bytes;  // a life for one recomputation alone does not use a size up
  r.life_bytes = r.asked_bytes;
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
