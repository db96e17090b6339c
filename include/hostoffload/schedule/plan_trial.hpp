#pragma once
// Whether steps that follow a plan take longer than steps without one: measured, with two events on the compute stream
// around a step, which are read in later steps. Nothing here waits.
//
// The first steps have no plan, and are perhaps not like the later ones. So a plan that seems slower than they were is
// set aside for some steps, and it is those that it is judged by.

#include <hostoffload/cuda/event.hpp>
#include <hostoffload/errors.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace hostoffload::inline v0::detail {

class plan_trial {
public:
  /// A plan is given up where the fastest of some steps with it takes longer by this factor than the fastest without.
  static constexpr double slower = 1.01;
  /// So many steps of a kind are compared.
  static constexpr unsigned enough = 4;

  enum class verdict : std::uint8_t { none, set_aside, take_up, give_up };

  /// A step is compared with steps that have its shape, and as many events in them.
  struct step_kind {
    std::uint64_t shape = 0;
    bool sampled = false;
    friend bool operator==(const step_kind&, const step_kind&) = default;
  };

  /// No plan has been made: steps are timed as they come.
  void begin() noexcept {
    enter(phase::before);
    without_ = {};
  }
  /// A plan, another one perhaps, is followed from now on.
  void begin_plan() noexcept { enter(phase::with); }

  /// Seconds of the fastest step with the plan that was judged last, and without one; 0: none was.
  [[nodiscard]] double with_s() const noexcept { return with_s_; }
  [[nodiscard]] double without_s() const noexcept { return without_s_; }

  /// Around a step. Throws cuda_error.
  void step_begins(cudaStream_t compute) {
    current_ = nullptr;
    if (phase_ == phase::over || (phase_ == phase::before && ++begun_ > most)) return;
    const auto spare = std::find_if(steps_.begin(), steps_.end(), [](const clocked_step& c) { return !c.in_flight; });
    if (spare == steps_.end()) return;
    if (!spare->began) spare->began.emplace(event_use::timing);
    if (!spare->ended) spare->ended.emplace(event_use::timing);
    event_ref(*spare->began).record(compute);
    current_ = &*spare;
  }
  /// `followed`: a plan, to its end.
  void step_ends(bool followed, step_kind kind, cudaStream_t compute) {
    clocked_step* const step = std::exchange(current_, nullptr);
    if (step == nullptr || followed != (phase_ == phase::with)) return;
    event_ref(*step->ended).record(compute);
    step->kind = kind;
    step->number = ++last_number_;
    step->in_flight = true;
  }
  /// The step that began is not one to compare.
  void drop_step() noexcept { current_ = nullptr; }

  /// Reads the steps that the device has completed, and says what becomes of the plan. Throws cuda_error.
  [[nodiscard]] verdict judge() {
    while (clocked_step* const oldest = oldest_in_flight()) {
      const std::optional<double> s = seconds_between(*oldest->began, *oldest->ended);
      if (!s) break;
      oldest->in_flight = false;
      if (phase_ == phase::before) {
        without_[next_without_++ % without_.size()] = {oldest->kind, *s, 1};
      } else {
        add(oldest->kind, *s);
      }
    }
    if (seen_.steps < enough && compared_ < most) return verdict::none;
    return phase_ == phase::with ? judge_plan() : judge_again();
  }

private:
  static constexpr unsigned most = 16;  // steps, where no `enough` in a row are of one kind or there is no plan

  enum class phase : std::uint8_t { before, with, aside, over };
  struct clocked_step {
    std::optional<event> began{};
    std::optional<event> ended{};
    step_kind kind{};
    std::uint64_t number = 0;
    bool in_flight = false;
  };
  struct timed_steps {
    step_kind kind{};
    double least_s = 0;
    unsigned steps = 0;
  };

  void enter(phase next) noexcept {
    for (clocked_step& c : steps_) c.in_flight = false;
    current_ = nullptr;
    seen_ = {};
    compared_ = begun_ = 0;
    phase_ = next;
  }
  void add(step_kind kind, double s) noexcept {
    ++compared_;
    if (seen_.steps == 0 || seen_.kind != kind) seen_ = {kind, s, 0};
    seen_.least_s = std::min(seen_.least_s, s);
    ++seen_.steps;
  }

  [[nodiscard]] verdict judge_plan() noexcept {
    const timed_steps with = seen_;
    enter(phase::over);
    double without_s = std::numeric_limits<double>::infinity();
    for (const timed_steps& t : without_) {
      if (t.steps != 0 && t.kind == with.kind) without_s = std::min(without_s, t.least_s);
    }
    if (with.steps < enough || !std::isfinite(without_s)) return verdict::none;
    with_kind_ = with.kind;
    with_s_ = with.least_s;
    without_s_ = without_s;
    if (!is_slower()) return verdict::none;
    enter(phase::aside);
    return verdict::set_aside;
  }
  [[nodiscard]] verdict judge_again() noexcept {
    const timed_steps without = seen_;
    enter(phase::over);
    if (without.steps < enough || without.kind != with_kind_) return verdict::take_up;
    without_s_ = without.least_s;
    return is_slower() ? verdict::give_up : verdict::take_up;
  }
  [[nodiscard]] bool is_slower() const noexcept { return with_s_ > slower * without_s_; }

  [[nodiscard]] clocked_step* oldest_in_flight() noexcept {
    clocked_step* oldest = nullptr;
    for (clocked_step& c : steps_) {
      if (c.in_flight && (oldest == nullptr || c.number < oldest->number)) oldest = &c;
    }
    return oldest;
  }

  std::array<clocked_step, 4> steps_{};
  clocked_step* current_ = nullptr;
  std::array<timed_steps, 4> without_{};  // before there was a plan: the last ones
  std::size_t next_without_ = 0;
  timed_steps seen_;  // of one kind, in a row
  unsigned compared_ = 0;
  unsigned begun_ = 0;
  step_kind with_kind_;
  double with_s_ = 0;
  double without_s_ = 0;
  std::uint64_t last_number_ = 0;
  phase phase_ = phase::before;
};

}  // namespace hostoffload::inline v0::detail
