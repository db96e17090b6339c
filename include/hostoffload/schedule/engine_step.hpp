#pragma once
// Construction and end, tensors, and steps. Part of engine.hpp.

#include <hostoffload/schedule/engine.hpp>

namespace hostoffload::inline v0::detail {

inline engine::engine(const scheduler_options& options) : options_(options) {
  check_device_memory(options.device_memory);
  check_host_memory(options.host_memory);
  order_.add(options.compute, "compute");
  if (options.overlap) {
    out_stream_.emplace();
    in_stream_.emplace();
    out_id_ = order_.add(out_stream_->get(), "copy out");
    in_id_ = order_.add(in_stream_->get(), "copy in");
  }
  order_.fix();

  memory_region rest = options.device_memory;
  if (options.window != unlimited) {
    options_.window = options.window / slot_alignment * slot_alignment;
    if (rest.begin != nullptr) {
      if (options_.window > rest.bytes) {
        throw usage_error("the window of " + std::to_string(options.window) +
                          " bytes does not fit into the device memory given, " + std::to_string(rest.bytes) + " bytes");
      }
      window_.emplace(memory_region{rest.begin, options_.window});
      rest = {static_cast<std::byte*>(rest.begin) + options_.window, rest.bytes - options_.window};
    } else if (options_.window != 0) {
      window_memory_.emplace(allocate_window(options_.window));
      window_.emplace(window_memory_->region());
    } else {
      window_.emplace(memory_region{});
    }
  }
  if (options.plan) planner_ = std::make_unique<step_planner>();
  device_.emplace(rest);
  host_.emplace(options.host_memory);
}

inline void engine::close() noexcept {
  if (closed_) return;
  closed_ = true;
  tape_.forget();
  if (capturing_) discard_capture();
  for (const auto& s : {&out_stream_, &in_stream_}) {
    if (*s) ignore(cudaStreamSynchronize((*s)->get()));
  }
  if (!options_.overlap || has_launched_) ignore(cudaStreamSynchronize(compute()));
  in_step_ = false;
  window_.reset();
  device_.reset();
  host_.reset();
  window_memory_.reset();
  history_.reset();
  planner_.reset();
  order_ = stream_order{};
  out_stream_.reset();
  in_stream_.reset();
}

inline tensor_record& engine::add(std::string_view name, layer_position at, std::size_t bytes, choice wanted) {
  throw_if_closed();
  forget_tape();
  if (bytes == 0) throw usage_error("tensor " + std::string(name) + ": a tensor has at least one element");
  choice placed = wanted;
  if (wanted == choice::offload || wanted == choice::offload_or_save || wanted == choice::offload_or_remat) {
    const std::size_t capacity = options_.host_memory.begin != nullptr
                                     ? std::min(options_.host_capacity, options_.host_memory.bytes)
                                     : options_.host_capacity;
    const bool fits = slot_size(bytes) <= capacity - std::min(capacity, host_planned_);
    placed = fits ? choice::offload : (wanted == choice::offload_or_save ? choice::save : choice::remat);
    if (!fits && wanted == choice::offload) {
      throw host_capacity_error(
          "tensor " + std::string(name) + "[" + std::to_string(at.index) + "]: its " + std::to_string(bytes) +
              " bytes do not fit into the host memory left: " + std::to_string(host_planned_) + " of " +
              std::to_string(capacity) +
              " bytes are taken; raise host_capacity, or place it as offload_or_save or offload_or_remat",
          host_planned_ + slot_size(bytes), capacity);
    }
  }
  tensor_record* r = nullptr;
  if (free_records_.empty()) {
    r = &records_.emplace_back();
  } else {
    r = free_records_.back();
    free_records_.pop_back();
    const std::uint64_t generation = r->generation;
    *r = tensor_record{};
    r->generation = generation;
  }
  r->name = name;
  r->position = at;
  r->bytes = bytes;
  r->forget_size();
  r->placed = placed;
  r->wanted = wanted;
  if (r->in_window()) host_planned_ += slot_size(bytes);
  all_have_host_slots_ = false;
  r->row = row_of(name);
  tensors_.push_back(r);
  count_tensor(*r, 1);
  forget_plan();
  return *r;
}

/// A tensor that is being made leaves its record, and the slot that is being written, to whoever makes it.
inline void engine::remove(tensor_record& r) noexcept {
  if (closed_) return;
  forget_tape();
  if (r.in_window()) forget_plan();
  if (planner_) planner_->recorder.forget();
  invalidate_graphs("a tensor was destroyed");
  const bool being_made = (r.state == life::making && r.leases == 0) || r.aside != nullptr;
  if ((r.leases != 0 || being_made) && !kept_error_) {
    kept_error_ = std::make_exception_ptr(usage_error("tensor " + r.title() + " was destroyed while " +
                                                      (being_made ? "it was being made" : "a lease on it was held")));
  }
  while (lease_request* const q = waiting_for(r)) {
    q->failure = std::make_exception_ptr(usage_error("tensor " + r.title() + " was destroyed while it was awaited"));
    dequeue(*q);
    loop_.put_last(*q->waiter);
  }
  if (r.state == life::alive || r.leases != 0) {
    if (r.leases != 0) {
      order_.record_leases();
      r.written.join(order_.next_points());
      use_ends(*r.device, r);
      r.leases = 0;
    }
    finish_life(r, false);
  }
  if (r.made_by != nullptr) {
    const std::shared_ptr<maker> shared = std::move(r.made_by);
    for (tensor_record* m : shared->members) m->made_by.reset();
    if (being_made) {
      shared->retired_before = std::exchange(retired_, shared);
    } else {
      std::erase(shared->members, &r);
    }
  }
  if (r.in_window()) host_planned_ -= slot_size(r.bytes);
  if (r.host != nullptr) {
    stream_clock behind = r.host_written;
    behind.join(r.host_read);
    host_->give_back(*r.host, behind);
    r.host = nullptr;
  }
  count_tensor(r, -1);
  std::erase(tensors_, &r);
  std::erase(shared_, &r);
  r.gone = being_made;
  if (!r.gone) free_records_.push_back(&r);
}

inline void engine::define(const std::shared_ptr<maker>& made_by) {
  throw_if_closed();
  forget_tape();
  for (tensor_record* m : made_by->members) {
    if (std::count(made_by->members.begin(), made_by->members.end(), m) != 1)
      throw usage_error("tensor " + m->title() + " is in its group twice: one function writes it once");
    if (m->made_by != nullptr) throw usage_error("tensor " + m->title() + " is defined twice: one function makes it");
    if (m->state != life::none)
      throw usage_error("tensor " + m->title() + " is defined while it holds values: define it first");
  }
  for (tensor_record* m : made_by->members) m->made_by = made_by;
}

inline std::size_t engine::row_of(std::string_view name) {
  for (std::size_t i = 0; i < now_.tensors.size(); ++i) {
    if (now_.tensors[i].name == name) return i;
  }
  now_.tensors.push_back(tensor_report{.name = name});
  return now_.tensors.size() - 1;
}

inline void engine::count_tensor(const tensor_record& r, int change) noexcept {
  tensor_report& t = row(r);
  std::size_t& kind =
      r.placed == choice::save ? t.saved : (r.treated_as() == choice::offload ? t.offloaded : t.rematerialised);
  kind += static_cast<std::size_t>(change);
  if (r.made_again) t.made_again += static_cast<std::size_t>(change);
  const bool may_offload = r.wanted == choice::offload_or_save || r.wanted == choice::offload_or_remat;
  if (may_offload && r.placed != choice::offload) t.fell_back += static_cast<std::size_t>(change);
}

/// Host slots for the tensors built since the last step: what tensors that are gone have left, and one allocation.
/// Waits for the copies in flight only where the former has to be freed to keep within host_capacity.
inline void engine::reserve_host_memory() {
  if (all_have_host_slots_) return;
  const auto wants_slot = [](const tensor_record* r) { return r->in_window() && r->host == nullptr; };
  const auto missing = [&] {
    std::size_t bytes = 0;
    for (tensor_record* r : tensors_) {
      if (!wants_slot(r)) continue;
      if (host_->has_free(slot_size(r->bytes))) {
        take_host_slot(*r);
      } else {
        bytes += slot_size(r->bytes);
      }
    }
    return bytes;
  };
  std::size_t bytes = missing();
  all_have_host_slots_ = bytes == 0;
  if (all_have_host_slots_) return;
  if (bytes > options_.host_capacity - std::min(options_.host_capacity, host_->total_bytes())) {
    for (const stream_id s : {out_id_, in_id_}) check(cudaStreamSynchronize(order_.handle(s)), "cudaStreamSynchronize");
    if (has_launched_) check(cudaStreamSynchronize(compute()), "cudaStreamSynchronize");
    host_->release_unused();
    invalidate_graphs("pinned memory was given back");
    bytes = missing();
    if (bytes > options_.host_capacity - std::min(options_.host_capacity, host_->total_bytes())) {
      throw host_capacity_error(
          "pinned host memory is in pieces of other sizes, left by tensors that are gone: " + std::to_string(bytes) +
              " bytes are needed on top of " + std::to_string(host_->total_bytes()) + " of " +
              std::to_string(options_.host_capacity) +
              "; build the tensors of all sizes before the first step, or a new scheduler",
          host_->total_bytes() + bytes, options_.host_capacity);
    }
  }
  host_->reserve(bytes, {}, options_.host_pinning);
  for (tensor_record* r : tensors_) {
    if (wants_slot(r)) take_host_slot(*r);
  }
  all_have_host_slots_ = true;
}

inline void engine::take_host_slot(tensor_record& r) {
  r.host = &host_->take(slot_size(r.bytes), r, order_.clock_of(out_id_), r.as_purpose());
  r.host_read = r.host->behind;
}

/// What may allocate.
inline void engine::prepare_step() {
  throw_if_closed();
  throw_kept_error();
  if (in_step_) throw usage_error("a step begins while another one of the same scheduler runs");
  retired_.reset();
  if (!history_) history_.emplace(now_.tensors.size());
  reserve_host_memory();
}

inline void engine::begin_step() {
  prepare_step();
  if (order_is_old_) begin_order_anew();
  ++steps_;
  const bool sampled = options_.sample_every != 0 && steps_ >= 3 && (steps_ - 3) % options_.sample_every == 0;
  history_->begin(steps_, sampled, compute());
  plan_ahead();
  const bool timed = sampled || (planner_ && steps_ >= 3 && options_.sample_every != 0 && planner_->wants_times());
  if (begin_repeated(timed)) return;
  begin_counting();
  if (!planner_) return;
  try {
    planner_->recorder.begin(steps_, timed, compute());
  } catch (...) {
    abandon_step();
    throw;
  }
}

inline void engine::begin_counting() {
  uses_ = 0;
  stowed_ = 0;
  shared_.clear();
  fetching_ahead_ = false;
  least_window_seen_ = 0;
  several_branches_ = false;
  begin_report();
  if (planner_) {
    planner_->begin_step();
    planner_->recorder.begin(steps_, false, compute());
  }
  gated_at_ = ~std::uint32_t{0};
  order_.begin_step();
  device_->in_first_order();
  places_.begin_step();
  looked_ahead_at_ = order_.last_point(compute_id);
  begin_writing();
  step_range_.emplace(options_.ranges, range_kind::step, std::string_view(), steps_);
  in_step_ = true;
}

inline void engine::begin_report() noexcept {
  for (tensor_report& t : now_.tensors) {
    t = tensor_report{.name = t.name,
                      .saved = t.saved,
                      .offloaded = t.offloaded,
                      .rematerialised = t.rematerialised,
                      .fell_back = t.fell_back,
                      .made_again = t.made_again};
  }
  step_report fresh;
  fresh.step = steps_;
  fresh.window_bytes = bounded_window();
  fresh.tensors = std::move(now_.tensors);
  now_ = std::move(fresh);
}

inline void engine::end_step() {
  throw_if_closed();
  if (end_repeated()) return;
  finish_step();
  end_writing();
  if (planner_) planner_->clock_ends(now_.planned, compute());
  history_->end(now_, compute());
}

inline void engine::finish_step() {
  std::exception_ptr failure = std::exchange(kept_error_, nullptr);
  end_all_lives(failure);
  step_range_.reset();
  in_step_ = false;
  if (failure) {
    stop_writing();
    history_->abandon();
    if (planner_) planner_->abandon_step();
    std::rethrow_exception(failure);
  }
  report_plan();
  learn_reserve();
  now_.least_window_bytes = several_branches_ ? reserve_ : least_window_seen_;
  now_.device_bytes = device_->total_bytes() + bounded_window();
  now_.host_bytes = host_->total_bytes();
}

/// What one branch after the other needs: seen in steps without several, or in which they ran one after the other.
/// Known when a step needed no more than the one before; while tensors' uses are being learned it may still grow.
inline void engine::learn_reserve() noexcept {
  if (several_branches_ && reserve_known_) return;
  reserve_known_ = least_window_seen_ <= reserve_ && steps_ > 1;
  reserve_ = std::max(reserve_, least_window_seen_);
}

inline void engine::end_all_lives(std::exception_ptr& first_error) {
  for (tensor_record* r : tensors_) {
    r->forget_size();
    if (r->state == life::none) continue;
    if (r->leases != 0) {
      if (!first_error) {
        first_error =
            std::make_exception_ptr(usage_error("the step ends while a lease on tensor " + r->title() +
                                                " is held: end() it, or leave its scope, before the step ends"));
      }
      order_.drop_leases();
      drop_leases_of(*r);
    }
    if (first_error) r->written.join(order_.next_points());
    finish_life(*r, false);
  }
}

/// The leases are void; what they enqueued may still run.
inline void engine::drop_leases_of(tensor_record& r) noexcept {
  r.leases = 0;
  use_ends(*r.device, r);
  r.written.join(order_.next_points());
}

inline void engine::abandon_step() noexcept {
  if (closed_) return;
  static_cast<void>(catch_up_quietly());
  stop_writing();
  loop_.clear();
  shared_.clear();
  while (first_waiting_ != nullptr) dequeue(*first_waiting_);
  first_value_ = nullptr;
  inline_line_ = nullptr;
  kept_error_ = nullptr;
  order_.drop_leases();
  for (tensor_record* r : tensors_) {
    if (r->aside != nullptr) {
      use_ends(*r->aside, *r);
      free_slot(*r, r->aside, order_.next_points());
    }
    r->forget_size();
    if (r->state == life::none) continue;
    if (r->leases != 0 || r->state == life::making) drop_leases_of(*r);
    r->written.join(order_.next_points());  // whatever was enqueued before the failure was noticed
    r->pattern.forget();
    finish_life(*r, false);
  }
  history_->abandon();
  if (planner_) planner_->abandon_step();
  step_range_.reset();
  in_step_ = false;
  if (capturing_) discard_capture();
}

inline step_report engine::report() {
  throw_if_capturing("report");
  if (closed_ || !history_) return {};
  step_report newest = history_->newest_completed();
  if (newest.step != 0) newest.warnings = std::exchange(warnings_, {});
  return newest;
}

}  // namespace hostoffload::inline v0::detail
