#pragma once
// Record, plan, replay: what the engine keeps of the steps that it has seen, and the plan that it follows.

#include <hostoffload/schedule/plan_cursor.hpp>
#include <hostoffload/schedule/plan_step.hpp>
#include <hostoffload/schedule/recompute_choice.hpp>
#include <hostoffload/schedule/step_recorder.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

namespace hostoffload::inline v0::detail {

class step_planner {
public:
  /// Times that differ by more than this part from those that were planned with lead to a new plan.
  static constexpr double drift = 0.1;
  /// So many steps in a row that depart from the plan mean that the step has changed.
  static constexpr unsigned lasting = 2;

  step_recorder recorder;
  plan_cursor cursor;

  [[nodiscard]] bool following() const noexcept { return following_; }
  [[nodiscard]] const std::optional<step_plan>& plan() const noexcept { return plan_; }
  [[nodiscard]] const std::optional<recorded_step>& record() const noexcept { return record_; }
  [[nodiscard]] std::string_view why_none() const noexcept { return plan_ ? std::string_view{} : why_none_; }
  [[nodiscard]] bool wants_times() const noexcept { return wants_times_ && !recorder.pending(); }

  /// What is made again as chosen, and the predictions that it was chosen by.
  [[nodiscard]] const recompute_choice& chosen() const noexcept { return chosen_; }
  /// Whether that has changed since the last call: then all tensors are looked at.
  [[nodiscard]] bool take_changed_choice() noexcept { return std::exchange(choice_changed_, false); }
  /// The least window when all is copied, if something was made again until now.
  [[nodiscard]] std::optional<std::size_t> take_reserve_before() noexcept {
    return chosen_.dropped.empty() ? std::exchange(reserve_before_, std::nullopt) : std::nullopt;
  }

  /// Looks at the step that was timed last; true when there is a new plan, or none any more. `can_follow`: copies have
  /// streams of their own, and the window is bounded.
  bool learn(std::uint64_t step, window_use window, bool can_follow) {
    const timed_step* const seen = recorder.read(step);
    if (seen == nullptr) return false;
    record_ = seen->whole;
    wants_times_ = !plan_ && seen->never_together;
    if (!can_be_planned(*seen)) return stage_ == stage::tried && take_back("they led to steps that cannot be planned");
    const bool same = plan_ && seen->sequence == sequence_ && !has_drifted(seen->windowed, planned_for_);
    // The events that time a step take time too: a choice is not held to less than what copying all would take.
    const double allowed_s = plan_ ? std::max((1 + drift) * plan_->step_s, chosen_.offload_s) : 0;
    if (same && stage_ == stage::kept && seen->followed && seen->step_s > allowed_s)
      return take_back("a step took longer than predicted, and longer than copying all");
    if (same) return stage_ == stage::open && !seen->never_together && choose(*seen, window);
    if (stage_ == stage::kept) return choose_anew();
    const bool had_plan = plan_.has_value();
    planned_for_ = seen->windowed;
    sequence_ = seen->sequence;
    const std::size_t room = (window.bytes - std::min(window.bytes, window.reserve)) / slot_alignment * slot_alignment;
    plan_ = can_follow ? plan_step(planned_for_, room) : std::nullopt;
    why_none_ = can_follow ? "no plan fits into the window beside its reserve" : "only a bounded window is planned";
    departures_ = 0;
    if (stage_ == stage::tried) {
      if (!plan_) return take_back("no plan with them fits into the window");
      if (plan_->step_s > (1 - recompute_search::worthwhile) * chosen_.offload_s)
        return take_back("the plan with them is hardly better");
      stage_ = stage::kept;
    } else if (stage_ == stage::open && plan_ && !seen->never_together) {
      choose(*seen, window);
    }
    if (plan_) cursor = plan_cursor(sequence_, *plan_);
    return plan_ || had_plan;
  }

  void begin_step() noexcept {
    following_ = plan_.has_value();
    odd_ = false;
    last_uses_ = 0;
    cursor.begin();
  }
  /// What is not as planned is told by departed().
  void note(tensor_record& r, use_event what) {
    last_uses_ += what == use_event::over ? 1 : 0;
    if (following_ && !departed_ && !cursor.pass(r, what)) departed_ = true;
  }
  [[nodiscard]] bool departed() const noexcept { return departed_; }
  void leave_plan() noexcept {
    following_ = false;
    departed_ = false;
    left_ = true;
  }
  /// The step does what plans know nothing of.
  void mark_odd() noexcept {
    odd_ = true;
    departed_ = following_;
  }

  /// Whether the step departed from its plan. A step in which no tensor was used for the last time was forward only:
  /// nothing is learned from it.
  bool end_step(bool several_branches) {
    const bool departed = plan_ && (left_ || departed_ || !cursor.at_end());
    const bool forward_only = last_uses_ == 0;
    recorder.end(!odd_ && !several_branches && !forward_only, plan_ && !departed);
    following_ = left_ = departed_ = false;
    if (forward_only) return departed;
    departures_ = departed ? departures_ + 1 : 0;
    if (departures_ >= lasting) {
      forget_choice();
      plan_.reset();
      why_none_ = "the step has changed: its times are taken again";
      wants_times_ = true;
    }
    return departed;
  }
  /// A step was what an earlier one was.
  void end_repeated_step() noexcept { departures_ = 0; }
  void abandon_step() noexcept {
    recorder.abandon();
    following_ = left_ = departed_ = false;
  }
  /// Tensors come or go.
  void forget() noexcept {
    if (record_ || recorder.pending()) why_none_ = "tensors were built or destroyed: times are taken again";
    forget_choice();
    plan_.reset();
    following_ = false;
    recorder.forget();
    wants_times_ = true;
  }

private:
  /// Of the choice what to make again.
  enum class stage : std::uint8_t {
    open,        // nothing is made again; chosen with each new plan
    tried,       // steps are taken without a plan, to time one
    kept,        // a plan was made of that
    taken_back,  // what was chosen did not do: no more of it
  };
  struct plan_before {
    step_plan plan{};
    std::vector<sequence_entry> sequence{};
    recorded_step planned_for{};
  };

  /// True when something is to be made again: then there is no plan until such a step has been timed.
  bool choose(const timed_step& seen, window_use window) {
    if (seen.sequence == looked_at_ && !has_drifted(seen.windowed, chosen_for_)) return false;
    looked_at_ = seen.sequence;
    chosen_for_ = seen.windowed;
    chosen_ = recompute_search(recorder.trace(), seen.whole, window).choose(*plan_);
    if (chosen_.dropped.empty()) return false;
    before_ = plan_before{std::move(*plan_), sequence_, planned_for_};
    reserve_before_ = window.reserve;
    stage_ = stage::tried;
    choice_changed_ = true;
    plan_.reset();
    why_none_ = "some tensors are now made again instead of copied: times are taken again";
    wants_times_ = true;
    return true;
  }
  /// The plan is again the one that copies all; true.
  bool take_back(std::string_view why) {
    chosen_.dropped.clear();
    chosen_.step_s = chosen_.offload_s;
    chosen_.why = why;
    stage_ = stage::taken_back;
    choice_changed_ = true;
    plan_ = std::move(before_->plan);
    sequence_ = std::move(before_->sequence);
    planned_for_ = std::move(before_->planned_for);
    before_.reset();
    departures_ = 0;
    wants_times_ = false;
    cursor = plan_cursor(sequence_, *plan_);
    return true;
  }
  /// The times have changed for good: all is copied until they are known; true.
  bool choose_anew() {
    forget_choice();
    plan_.reset();
    why_none_ = "times have changed: they are taken again, with all tensors copied";
    wants_times_ = true;
    return true;
  }
  void forget_choice() noexcept {
    choice_changed_ = choice_changed_ || !chosen_.dropped.empty();
    chosen_ = {};
    looked_at_.clear();
    before_.reset();
    stage_ = stage::open;
  }

  bool can_be_planned(const timed_step& seen) noexcept {
    if (seen.windowed.lives.empty()) {
      why_none_ = "no tensor is offloaded";
    } else if (!seen.plannable) {
      why_none_ = "no plans are made for coroutines side by side, nor where an offloaded tensor is made again";
    } else if (seen.windowed.out.rate <= 0) {
      why_none_ = "no copy has been timed yet";
      wants_times_ = true;
    } else {
      return true;
    }
    return false;
  }
  static bool differs(double a, double b) { return std::abs(a - b) > drift * std::max(a, b); }
  static bool has_drifted(const recorded_step& now, const recorded_step& then) {
    const auto sum = [](const std::vector<double>& all) { return std::accumulate(all.begin(), all.end(), 0.0); };
    const auto link_differs = [](const link_direction& a, const link_direction& b) {
      return differs(a.rate, b.rate) || differs(a.rate_while_both, b.rate_while_both);
    };
    return differs(sum(now.segment_s), sum(then.segment_s)) || link_differs(now.out, then.out) ||
           link_differs(now.in, then.in);
  }

  std::optional<recorded_step> record_;
  recorded_step planned_for_;
  std::vector<sequence_entry> sequence_;
  std::optional<step_plan> plan_;
  std::string_view why_none_ = "no step has been timed yet";
  recompute_choice chosen_;
  std::vector<sequence_entry> looked_at_;  // when it was chosen last …
  recorded_step chosen_for_;
  std::optional<plan_before> before_;  // … and the plan that copies all
  std::optional<std::size_t> reserve_before_;
  stage stage_ = stage::open;
  bool choice_changed_ = false;
  unsigned departures_ = 0;
  std::size_t last_uses_ = 0;
  bool wants_times_ = true;
  bool following_ = false;
  bool departed_ = false;  // something came that was not planned
  bool left_ = false;      // and the plan was left
  bool odd_ = false;
};

}  // namespace hostoffload::inline v0::detail
