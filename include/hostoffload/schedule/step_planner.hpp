#pragma once
// Record, plan, replay: what the engine keeps of the steps that it has seen, and the plan that it follows.

#include <hostoffload/schedule/plan_cursor.hpp>
#include <hostoffload/schedule/plan_step.hpp>
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

  /// Looks at the step that was timed last; true when there is a new plan, or none any more. `room`: bytes that a plan
  /// may fill; `can_follow`: copies have streams of their own, and the window is bounded.
  bool learn(std::uint64_t step, std::size_t room, bool can_follow) {
    const timed_step* const seen = recorder.read(step);
    if (seen == nullptr) return false;
    record_ = seen->whole;
    wants_times_ = !plan_ && seen->never_together;
    if (!can_be_planned(*seen)) return false;
    const bool same = plan_ && seen->sequence == sequence_ && !has_drifted(seen->windowed, planned_for_);
    if (same) return false;
    const bool had_plan = plan_.has_value();
    planned_for_ = seen->windowed;
    sequence_ = seen->sequence;
    plan_ = can_follow ? plan_step(planned_for_, room) : std::nullopt;
    why_none_ = can_follow ? "no plan fits into the window beside its reserve" : "only a bounded window is planned";
    departures_ = 0;
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
    recorder.end(!odd_ && !several_branches && !forward_only);
    following_ = left_ = departed_ = false;
    if (forward_only) return departed;
    departures_ = departed ? departures_ + 1 : 0;
    if (departures_ >= lasting) {
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
    plan_.reset();
    following_ = false;
    recorder.forget();
    why_none_ = "tensors were built or destroyed: times are taken again";
    wants_times_ = true;
  }

private:
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
  unsigned departures_ = 0;
  std::size_t last_uses_ = 0;
  bool wants_times_ = true;
  bool following_ = false;
  bool departed_ = false;  // something came that was not planned
  bool left_ = false;      // and the plan was left
  bool odd_ = false;
};

}  // namespace hostoffload::inline v0::detail
