#pragma once
// Following a plan, and leaving it. Part of engine.hpp.

#include <hostoffload/schedule/engine.hpp>

namespace hostoffload::inline v0::detail {

inline void engine::tell_planner(tensor_record& r, use_event what) noexcept {
  try {
    planner_->note(r, what);
  } catch (...) {  // no memory, or no event: thrown by the next await
    if (!kept_error_) kept_error_ = std::current_exception();
  }
}

/// Tells the recorder of a step that is timed.
template <class Tell>
void engine::trace(Tell&& tell) noexcept {
  if (!planner_ || !planner_->recorder.timing()) return;
  try {
    tell(planner_->recorder);
  } catch (...) {
    planner_->recorder.spoil();
    if (!kept_error_) kept_error_ = std::current_exception();
  }
}

/// A new plan, if one was timed. Steps that follow it are enqueued in its order.
inline void engine::plan_ahead() {
  if (!planner_) return;
  const std::size_t whole = window_ ? window_->total_bytes() : 0;
  const bool is_new = planner_->learn(steps_, {whole, reserve_}, window_ && options_.overlap);
  if (is_new) invalidate_graphs("a new plan was made");
  if (planner_->take_changed_choice()) apply_choice();
  if (window_ && options_.overlap && options_.sample_every != 0) planner_->clock_begins(history_->samples(), compute());
}

/// No tensor holds values. What is to be made again keeps its pinned memory, for a choice may be taken back.
inline void engine::apply_choice() noexcept {
  forget_tape();
  const maker_set& dropped = planner_->made_again();
  for (tensor_record* r : tensors_) {
    const bool made_again = r->in_window() && r->made_by != nullptr && dropped.contains(r->made_by.get());
    if (made_again == r->made_again) continue;
    count_tensor(*r, -1);
    r->made_again = made_again;
    count_tensor(*r, 1);
  }
  if (const std::optional<std::size_t> before = planner_->take_reserve_before()) reserve_ = *before;
}

/// Issues the copies that are due: before the next use begins, or now that one began or ended.
inline void engine::issue_due_copies(bool before_use) {
  if (planner_->departed()) return leave_plan();
  const gathering until_here(*this);
  while (const planned_copy* const c = planner_->cursor.due(before_use)) {
    tensor_record& r = *c->tensor;
    c->way == link_way::out ? enqueue_copies_in() : enqueue_copies_out();
    const bool here = r.state == life::alive && r.device != nullptr;
    if (c->way == link_way::out ? !here || r.on_host : !r.on_host || r.leases != 0) return leave_plan();
    if (c->way == link_way::out) {
      copy_out(r);
    } else if (!bring_back(r, c->offset)) {
      return leave_plan();
    }
    planner_->cursor.issued();
  }
  enqueue_copies_out();
  enqueue_copies_in();
}

/// The same when a lease has been granted: what fails is thrown by the next await.
inline void engine::follow_plan_in_use() noexcept {
  try {
    follow_plan(false);
  } catch (...) {
    if (!kept_error_) kept_error_ = std::current_exception();
  }
}

/// Its copy in, gated: it starts no sooner than the compute stream comes to what is enqueued next. That only paces.
inline bool engine::bring_back(tensor_record& r, std::size_t offset) {
  if (r.device != nullptr) {
    free_slot(r, r.device, last_users(r));
    r.readers = {};
  }
  slot* const target = take_planned(r, offset);
  if (target == nullptr) return false;
  if (gated_at_ != planner_->cursor.point() || gate_ != order_.last_point(compute_id)) {
    try {
      gate_ = order_.record(compute_id, r.as_purpose());
    } catch (...) {
      slot* taken = target;
      free_slot(r, taken, taken->behind);
      throw;
    }
    gated_at_ = planner_->cursor.point();
  }
  target->behind.join(compute_id, gate_);
  copy_in(r, *target);
  return true;
}

/// The slot at a planned place; null when that is not free.
inline slot* engine::take_planned(tensor_record& r, std::size_t offset) {
  slot* const taken = window_->take_at(offset, slot_size(r.life_bytes), r,
                                       [this](tensor_record& evicted) { forget_device_copy(evicted); });
  if (taken != nullptr) {
    now_.window_top_bytes = std::max(now_.window_top_bytes, offset + taken->bytes);
    hold_slot(r, *taken);
  }
  return taken;
}

/// The rest of the step is not as planned: what the plan would have kept is stowed, so that its room can be had.
inline void engine::leave_plan() {
  enqueue_copies_out();
  enqueue_copies_in();
  planner_->leave_plan();
  ++now_.plan_departures;
  for (tensor_record* r : tensors_) {
    const bool leaves = r->treated_as() == choice::offload && r->state == life::alive && r->leases == 0;
    if (!leaves || r->device == nullptr || r->on_host) continue;
    copy_out(*r);
  }
  enqueue_copies_out();
  room_changed_ = true;
}

/// Tensors come or go: the plan does not hold any more.
inline void engine::forget_plan() noexcept {
  if (!planner_) return;
  try {
    if (planner_->following()) leave_plan();
  } catch (...) {
    if (!kept_error_) kept_error_ = std::current_exception();
  }
  planner_->forget();
}

/// Why there is no plan, and what is made again.
inline void engine::report_choice(step_report& to) const noexcept {
  to.plan_note = planner_->why_none();
  to.with_plan_s = planner_->trial().with_s();
  to.without_plan_s = planner_->trial().without_s();
  const recompute_choice& chosen = planner_->chosen();
  to.plan_choice = chosen.why;
  to.plan_offload_s = chosen.offload_s;
  to.plan_remat_s = chosen.remat_s;
}

inline void engine::report_plan() {
  if (!planner_) return;
  const bool departed = planner_->end_step(several_branches_);
  now_.planned = planner_->plan() != nullptr && !departed;
  if (departed) now_.plan_departures = std::max<std::size_t>(1, now_.plan_departures);
  report_choice(now_);
  if (planner_->plan() == nullptr) return;
  const step_plan& plan = *planner_->plan();
  now_.plan_window_bytes = plan.window_bytes;
  now_.plan_alive_bytes = plan.alive_bytes;
  now_.plan_step_s = plan.step_s;
  now_.plan_exposed_s = plan.step_s - plan.compute_s;
}

}  // namespace hostoffload::inline v0::detail
