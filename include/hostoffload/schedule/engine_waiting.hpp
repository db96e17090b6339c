#pragma once
// Requests that wait, and what is said when they would wait for ever. Part of engine.hpp.

#include <hostoffload/schedule/engine.hpp>

namespace hostoffload::inline v0::detail {

inline void engine::throw_unless_mine(const promise_base& waiter) const {
  if (waiter.runner == &loop_) return;
  throw usage_error("a coroutine waits for a tensor or for host values of another scheduler than runs it");
}

inline void engine::enqueue(lease_request& q, promise_base& waiter) {
  throw_unless_mine(waiter);
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
    if (!r->in_window() || (r->leases == 0 && r->state != life::making)) continue;
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
  const std::size_t needed = window_in_use_ + wanted;
  std::string text = "the window of " + std::to_string(options_.window) + " bytes is too small: tensor " + r.title() +
                     " needs " + std::to_string(wanted) + " bytes while these are in use: " + who_holds_the_window();
  if (needed > options_.window) {
    text += "; a window of at least " + std::to_string(needed) + " bytes passes this point";
  } else {
    text += "; these bytes divide the window, the largest piece left has " + std::to_string(window_->largest_room()) +
            " bytes: make the window larger or end leases in the reverse order";
  }
  throw window_error(text, std::max(needed, options_.window + 1), options_.window);
}

}  // namespace hostoffload::inline v0::detail
