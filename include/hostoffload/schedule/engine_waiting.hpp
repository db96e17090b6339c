#pragma once
// Requests that wait, what happens when every coroutine does, and what is said when they would wait for ever. Part of
// engine.hpp.

#include <hostoffload/schedule/engine.hpp>

namespace hostoffload::inline v0::detail {

inline void engine::throw_unless_mine(const promise_base& waiter) const {
  if (waiter.runner == &loop_) return;
  throw usage_error("a coroutine waits for a tensor or for host values of another scheduler than runs it");
}

inline void engine::enqueue(lease_request& q, promise_base& waiter) {
  throw_unless_mine(waiter);
  tape_.spoil();
  q.waiter = &waiter;
  q.next = nullptr;
  q.queued = true;
  (last_waiting_ == nullptr ? first_waiting_ : last_waiting_->next) = &q;
  last_waiting_ = &q;
}

inline void engine::dequeue(lease_request& q) noexcept {
  if (!q.queued) return;
  lease_request* before = nullptr;
  for (lease_request* i = first_waiting_; i != &q; i = i->next) before = i;
  (before == nullptr ? first_waiting_ : before->next) = q.next;
  if (last_waiting_ == &q) last_waiting_ = before;
  q.queued = false;
}

inline void engine::give_up(lease_request& q) noexcept {
  dequeue(q);
  if (!q.making_task) return;
  q.making_task.reset();
  abort_making(*q.made_by, true);
}

/// Tries once more; true when the waiter goes on.
inline bool engine::serve(lease_request& q, bool oldest) {
  try {
    const outcome result = request(q, oldest);
    if (result == outcome::no_room || result == outcome::being_made) return false;
    dequeue(q);
    if (result == outcome::make && q.tensor->made_by->is_coroutine()) {
      start_making(q, *q.waiter);
      return true;
    }
    if (result == outcome::make) make_inline(q);
  } catch (...) {
    q.failure = std::current_exception();
    dequeue(q);
  }
  loop_.put_last(*q.waiter);
  return true;
}

inline void engine::serve_waiters() {
  for (lease_request* q = first_waiting_; q != nullptr;) {
    lease_request* const next = q->next;
    if (serve(*q, false)) {
      q = first_waiting_;  // what was served may have changed the queue
    } else {
      q = next;
    }
  }
}

inline void engine::throw_without_host_slot(const tensor_record& r) const {
  if (!r.in_window() || r.host != nullptr) return;
  throw usage_error("tensor " + r.title() +
                    " was built in the middle of this step: it is given pinned memory when the next one begins");
}

inline void engine::throw_kept_error() {
  if (kept_error_) std::rethrow_exception(std::exchange(kept_error_, nullptr));
}

inline std::string engine::who_holds_the_window() const {
  std::string text;
  for (const tensor_record* r : tensors_) {
    const bool kept = r->made_again && r->device != nullptr;
    if (!r->in_window() || (r->leases == 0 && r->state != life::making && !kept)) continue;
    text += (text.empty() ? "" : ", ") + r->title() + " " + std::to_string(r->device->bytes);
  }
  return text.empty() ? "nothing" : text;
}

inline void engine::throw_no_room(const lease_request& q) const {
  std::size_t wanted = 0;
  const tensor_record& r = *q.tensor;
  if (r.state != life::alive && r.made_by != nullptr) {
    for (const tensor_record* m : r.made_by->members) wanted += m->in_window() ? slot_size(m->bytes) : 0;
  } else {
    wanted = slot_size(r.life_bytes);
  }
  std::size_t needed = window_in_use_ + wanted;
  std::string text = "the window of " + std::to_string(options_.window) + " bytes is too small: tensor " + r.title() +
                     " needs " + std::to_string(wanted) + " bytes while these are in use: " + who_holds_the_window();
  if (needed > options_.window) {
    text += "; a window of at least " + std::to_string(needed) + " bytes passes this point";
  } else {
    const std::size_t left = window_->largest_room();
    needed = options_.window + std::max(slot_alignment, wanted - std::min(wanted, left));
    text += "; these bytes divide the window, the largest piece left has " + std::to_string(left) +
            " bytes: try a window of " + std::to_string(needed) + " bytes, or end leases in the reverse order";
  }
  throw window_error(text, needed, options_.window);
}

inline void engine::wait_for_value(host_value_request& q, promise_base& waiter) {
  throw_unless_mine(waiter);
  catch_up();
  tape_.spoil();
  q.waiter = &waiter;
  q.line = waiter.line;
  host_value_request** end = &first_value_;
  while (*end != nullptr) end = &(*end)->next;
  *end = &q;
}

inline lease_request* engine::waiting_for(const tensor_record& r) const noexcept {
  lease_request* q = first_waiting_;
  while (q != nullptr && q->tensor != &r) q = q->next;
  return q;
}

inline lease_request* engine::oldest_waiting(const branch* after) const noexcept {
  lease_request* oldest = nullptr;
  for (lease_request* q = first_waiting_; q != nullptr; q = q->next) {
    if (after != nullptr && !older(*after, *q->line)) continue;
    if (oldest == nullptr || older(*q->line, *oldest->line)) oldest = q;
  }
  return oldest;
}

/// From the oldest to the youngest, the first that can go on.
inline bool engine::serve_oldest() {
  for (lease_request* q = oldest_waiting(); q != nullptr;) {
    const branch* const line = q->line;
    if (serve(*q, true)) return true;
    q = oldest_waiting(line);
  }
  return false;
}

/// Every coroutine waits. The oldest that asks for room may draw on the reserve; then a value is waited for on the
/// host; if neither helps, the oldest is told why it would wait for ever.
inline void engine::idle() {
  lease_request* const oldest = oldest_waiting();
  const bool value_first = first_value_ != nullptr && (oldest == nullptr || older(*first_value_->line, *oldest->line));
  if (!value_first && serve_oldest()) return;
  if (first_value_ != nullptr) {
    host_value_request& q = *std::exchange(first_value_, first_value_->next);
    ++now_.host_waits;
    try {
      check(cudaEventSynchronize(q.arrived.get()), "cudaEventSynchronize", {{}, 0, order_.name(compute_id)});
    } catch (...) {
      q.failure = std::current_exception();
    }
    loop_.put_last(*q.waiter);
    return;
  }
  if (first_waiting_ == nullptr) {
    throw usage_error(
        "a coroutine awaits something that no scheduler knows: within a step, await tensors, host values, tasks and "
        "when_all");
  }
  reserve_known_ = false;        // should they stand in each other's way: the next step runs them one after the other
  lease_request* told = oldest;  // of those that wait for room, if there is one
  while (told != nullptr && told->tensor->state == life::making) told = oldest_waiting(told->line);
  try {
    if (told != nullptr) throw_no_room(*told);
    told = oldest;
    throw usage_error("tensor " + told->tensor->title() + ": its define function waits for a tensor that waits for it");
  } catch (...) {
    told->failure = std::current_exception();
  }
  dequeue(*told);
  loop_.put_last(*told->waiter);
}

}  // namespace hostoffload::inline v0::detail
