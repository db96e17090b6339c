#pragma once
// Record, plan, replay: what the engine keeps of the steps that it has seen, and the plan that it follows.

#include <hostoffload/schedule/plan_cursor.hpp>
#include <hostoffload/schedule/plan_step.hpp>
#include <hostoffload/schedule/plan_trial.hpp>
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
  /// Null where steps have none.
  [[nodiscard]] const step_plan* plan() const noexcept { return plan_ && !set_aside_ ? &*plan_ : nullptr; }
  [[nodiscard]] const std::optional<recorded_step>& record() const noexcept { return record_; }
  [[nodiscard]] std::string_view why_none() const noexcept {
    return plan() != nullptr ? std::string_view{} : why_none_;
  }
  [[nodiscard]] bool wants_times() const noexcept { return wants_times_ && !recorder.pending(); }

  /// What is made again as chosen where a plan is followed or to be made, and the predictions that it was chosen by.
  [[nodiscard]] const recompute_choice& chosen() const noexcept { return chosen_; }
  [[nodiscard]] const maker_set& made_again() const noexcept { return set_aside_ ? none_ : chosen_.dropped; }
  /// Whether that has changed since the last call: then all tensors are looked at.
  [[nodiscard]] bool take_changed_choice() noexcept { return std::exchange(choice_changed_, false); }
  /// The least window when all is copied, if something was made again until now.
  [[nodiscard]] std::optional<std::size_t> take_reserve_before() noexcept {
    if (set_aside_) return reserve_before_;
    return chosen_.dropped.empty() ? std::exchange(reserve_before_, std::nullopt) : std::nullopt;
  }

  /// Around a step: times it where a plan is compared with steps without one. Throw cuda_error.
  void clock_begins(bool sampled, cudaStream_t compute) {
    sampled_ = sampled;
    if (stage_ != stage::tried) trial_.step_begins(compute);
  }
  void clock_ends(bool followed, cudaStream_t compute) { trial_.step_ends(followed, {shape_, sampled_}, compute); }
  [[nodiscard]] const plan_trial& trial() const noexcept { return trial_; }

  /// Looks at the step that was timed last; true when there is a new plan, or none any more. `can_follow`: copies have
  /// streams of their own, and the window is bounded.
  bool learn(std::uint64_t step, window_use window, bool can_follow) {
    const plan_trial::verdict verdict = trial_.judge();
    const bool judged = plan_ && obey(verdict);
    const timed_step* const seen = recorder.read(step);
    if (seen == nullptr) return judged;
    record_ = seen->whole;
    if (set_aside_ && seen->sequence == (before_ ? before_->sequence : sequence_)) return judged;
    if (set_aside_) begin_anew("the step has changed: its times are taken again");
    return learn_from(*seen, window, can_follow) || judged;
  }

  void begin_step() noexcept {
    following_ = plan() != nullptr;
    odd_ = false;
    last_uses_ = 0;
    shape_ = 0;
    cursor.begin();
  }
  /// What is not as planned is told by departed().
  void note(tensor_record& r, use_event what) {
    if (what == use_event::over) {
      ++last_uses_;
      shape_ += (reinterpret_cast<std::uintptr_t>(&r) ^ r.life_bytes) * 0x9e3779b97f4a7c15U;
    }
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
    const bool departed = plan() != nullptr && (left_ || departed_ || !cursor.at_end());
    const bool forward_only = last_uses_ == 0;
    following_ = left_ = departed_ = false;
    if (recorder.timing()) trial_.drop_step();  // its events take time
    recorder.end(!odd_ && !several_branches && !forward_only, plan() != nullptr && !departed);
    if (forward_only) return departed;
    departures_ = departed ? departures_ + 1 : 0;
    if (departures_ >= lasting) begin_anew("the step has changed: its times are taken again");
    return departed;
  }
  /// A step was what an earlier one was.
  void end_repeated_step() noexcept {
    departures_ = 0;
    shape_ = played_shape_;
  }
  /// What the step asked may be repeated.
  void keep_shape() noexcept { played_shape_ = shape_; }
  void abandon_step() noexcept {
    recorder.abandon();
    trial_.drop_step();
    following_ = left_ = departed_ = false;
  }
  /// Tensors come or go.
  void forget() noexcept {
    const bool known = record_ || recorder.pending();
    begin_anew(known ? "tensors were built or destroyed: times are taken again" : why_none_);
    following_ = false;
    recorder.forget();
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

  bool learn_from(const timed_step& seen, window_use window, bool can_follow) {
    wants_times_ = !plan_ && seen.never_together;
    if (!can_be_planned(seen)) return stage_ == stage::tried && take_back("they led to steps that cannot be planned");
    const bool same = plan_ && seen.sequence == sequence_ && !has_drifted(seen.windowed, planned_for_);
    // The events that time a step take time too: a choice is not held to less than what copying all would take.
    const double allowed_s = plan_ ? std::max((1 + drift) * plan_->step_s, chosen_.offload_s) : 0;
    if (same && stage_ == stage::kept && seen.followed && seen.step_s > allowed_s)
      return take_back("a step took longer than predicted, and longer than copying all");
    if (same) return stage_ == stage::open && !seen.never_together && choose(seen, window);
    if (stage_ == stage::kept) return choose_anew();
    const bool had_plan = plan_.has_value();
    planned_for_ = seen.windowed;
    sequence_ = seen.sequence;
    const std::size_t room = (window.bytes - std::min(window.bytes, window.reserve)) / slot_alignment * slot_alignment;
    plan_ = can_follow ? plan_step(planned_for_, room) : std::nullopt;
    why_none_ = can_follow ? "no plan fits into the window beside its reserve" : "only a bounded window is planned";
    departures_ = 0;
    if (stage_ == stage::tried) {
      if (!plan_) return take_back("no plan with them fits into the window");
      if (plan_->step_s > (1 - recompute_search::worthwhile) * chosen_.offload_s)
        return take_back("the plan with them is hardly better");
      stage_ = stage::kept;
    } else if (stage_ == stage::open && plan_ && !seen.never_together) {
      choose(seen, window);
    }
    if (plan_) follow_anew();
    return plan_ || had_plan;
  }
  void follow_anew() {
    cursor = plan_cursor(sequence_, *plan_);
    trial_.begin_plan();
  }
  /// True where steps have a plan now and had none, or the reverse.
  bool obey(plan_trial::verdict v) noexcept {
    if (v == plan_trial::verdict::none) return false;
    if (v == plan_trial::verdict::give_up) {
      why_none_ = "steps that followed it took longer than steps without one";
      if (stage_ == stage::kept) {
        sequence_ = std::move(before_->sequence);
        before_.reset();
        chosen_.dropped.clear();
        chosen_.why = "steps with a plan took longer than steps without one";
        stage_ = stage::taken_back;
      }
      return false;
    }
    set_aside_ = v == plan_trial::verdict::set_aside;
    why_none_ = "it is set aside, to compare it with steps without one";
    choice_changed_ = !chosen_.dropped.empty();
    return true;
  }
  /// All is copied, and without a plan, until times are known.
  void begin_anew(std::string_view why) noexcept {
    forget_choice();
    plan_.reset();
    set_aside_ = false;
    trial_.begin();
    why_none_ = why;
    wants_times_ = true;
  }

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
    follow_anew();
    return true;
  }
  /// The times have changed for good: all is copied until they are known; true.
  bool choose_anew() {
    begin_anew("times have changed: they are taken again, with all tensors copied");
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
  const maker_set none_{};
  std::optional<plan_before> before_;  // … and the plan that copies all
  std::optional<std::size_t> reserve_before_;
  stage stage_ = stage::open;
  bool choice_changed_ = false;
  plan_trial trial_;
  bool set_aside_ = false;  // the plan: steps have none, perhaps for good
  bool sampled_ = false;
  std::uint64_t shape_ = 0;  // of the step: tells what ends in it from what ends in others
  std::uint64_t played_shape_ = 0;
  unsigned departures_ = 0;
  std::size_t last_uses_ = 0;
  bool wants_times_ = true;
  bool following_ = false;
  bool departed_ = false;  // something came that was not planned
  bool left_ = false;      // and the plan was left
  bool odd_ = false;
};

}  // namespace hostoffload::inline v0::detail
