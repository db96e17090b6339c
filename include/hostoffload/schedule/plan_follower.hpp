#pragma once
// A step that follows a plan, in virtual time: the recurrence that streams and events follow on the device.

#include <hostoffload/schedule/slab_packing.hpp>
#include <hostoffload/schedule/step_plan.hpp>
#include <hostoffload/schedule/step_timeline.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

class plan_follower {
public:
  plan_follower(const prepared_step& step, const step_plan& plan)
      : step_(step), plan_(plan), course_(step.lives().size()) {
    std::vector<std::uint32_t> index(plan.lives.size(), 0);  // of recorded lives among the step's
    for (std::uint32_t i = 0; i < step.lives().size(); ++i) index[step.lives()[i].life] = i;
    for (const std::uint32_t life : plan.out_order) out_order_.push_back(index[life]);
    for (const std::uint32_t life : plan.in_order) in_order_.push_back(index[life]);
    std::vector<bool> seen(step.lives().size(), false);
    for (const std::uint32_t life : plan.slot_order) {
      const std::uint32_t i = index[life];
      (seen[i] ? course_[i].stay_back : course_[i].stay) = stays_.size();
      stays_.push_back({.bytes = step.lives()[i].slot_bytes,
                        .offset = seen[i] ? plan.lives[life].offset_back : plan.lives[life].offset});
      seen[i] = true;
    }
    begun_.assign(stays_.size(), false);
    accesses_ = stays_;
  }

  bool pass(step_point p, double now) {
    if (!std::exchange(tried_, true)) {
      leave(p, now);
      tried_at_ = now;
    }
    for (auto e = step_.events_begin(p); e != step_.events_end(p); ++e) {
      if (e->what == prepared_step::happening::begins && !is_free(course_[e->life].stay)) return false;
      if (e->what == prepared_step::happening::gap_ends && plan_of(e->life).copied && !course_[e->life].arrived)
        return false;
    }
    for (auto e = step_.events_begin(p); e != step_.events_end(p); ++e) {
      if (e->what != prepared_step::happening::begins) continue;
      arrive(course_[e->life].stay, now);
      untouched_.push_back(course_[e->life].stay);
    }
    late_s_ = tried_at_ < now ? step_.recorded().wait_latency_s : 0;
    if (p == step_.last_point() || works_behind(p)) {
      for (const std::size_t stay : untouched_) accesses_[stay].begin = now + late_s_;
      untouched_.clear();
    }
    tried_ = false;
    phase_ = 2 * p + 1;
    return true;
  }

  [[nodiscard]] double late_s() const noexcept { return late_s_; }

  std::optional<std::uint32_t> pick(link_way w, double now) {
    if (w == link_way::out) {
      if (outs_ == out_order_.size() || !may_leave(out_order_[outs_])) return std::nullopt;
      return out_order_[outs_++];
    }
    if (ins_ == in_order_.size()) return std::nullopt;
    const std::uint32_t life = in_order_[ins_];
    const course& c = course_[life];
    if (!c.left || step_.lives()[life].gap_begin > reached_ || plan_of(life).in_at > phase_ || !is_free(c.stay_back))
      return std::nullopt;
    ++ins_;
    arrive(c.stay_back, now);
    return life;
  }

  void copied(link_way w, std::uint32_t life, double now) {
    if (w == link_way::in) {
      course_[life].arrived = true;
      return;
    }
    course_[life].left = true;
    accesses_[course_[life].stay].end = now;
    if (step_.lives()[life].gap_begin <= reached_) give_back(life, now);
  }

  [[nodiscard]] static bool unblock() noexcept { return false; }

  /// When each slot was held, in the order of the plan.
  [[nodiscard]] std::vector<slab_stay>& stays() noexcept { return stays_; }
  /// The largest sum of slots at one time, each from the first work or copy that accesses it to the last: a slot may be
  /// held while the compute stream waits for another one.
  [[nodiscard]] std::size_t alive_bytes() { return slab_packing(accesses_).largest_sum(); }

private:
  struct course {
    bool left = false;
    bool arrived = false;
    std::size_t stay = 0;  // the first, in stays_
    std::size_t stay_back = 0;
  };

  /// Whether the compute stream does anything between the point and the next one: no kernel is that short.
  [[nodiscard]] bool works_behind(step_point p) const noexcept { return step_.at(p + 1) - step_.at(p) > 1e-7; }

  [[nodiscard]] const life_plan& plan_of(std::uint32_t life) const noexcept {
    return plan_.lives[step_.lives()[life].life];
  }
  [[nodiscard]] bool may_leave(std::uint32_t life) const noexcept {
    return plan_of(life).out_at <= phase_ && step_.lives()[life].made <= reached_;
  }

  void leave(step_point p, double now) {
    reached_ = p;
    phase_ = 2 * p;
    if (p != 0 && works_behind(p - 1)) worked_until_ = now;
    for (auto e = step_.events_begin(p); e != step_.events_end(p); ++e) {
      if (e->what == prepared_step::happening::ends) give_back(e->life, now);
      if (e->what == prepared_step::happening::gap_begins && course_[e->life].left) give_back(e->life, now);
    }
  }

  /// Whether all who are to have these bytes before have left them.
  [[nodiscard]] bool is_free(std::size_t stay) const noexcept {
    const auto overlaps = [&](std::size_t other) {
      return stays_[other].offset < stays_[stay].offset + stays_[stay].bytes &&
             stays_[stay].offset < stays_[other].offset + stays_[other].bytes;
    };
    for (std::size_t i = first_to_begin_; i < stay; ++i) {
      if (!begun_[i] && overlaps(i)) return false;
    }
    return std::none_of(present_.begin(), present_.end(), overlaps);
  }

  void arrive(std::size_t stay, double now) {
    present_.push_back(stay);
    stays_[stay].begin = accesses_[stay].begin = now;
    begun_[stay] = true;
    while (first_to_begin_ < begun_.size() && begun_[first_to_begin_]) ++first_to_begin_;
  }
  void give_back(std::uint32_t life, double now) {
    course& c = course_[life];
    const std::size_t stay = c.left && begun_[c.stay_back] && plan_of(life).copied ? c.stay_back : c.stay;
    stays_[stay].end = now;
    accesses_[stay].end = std::max(accesses_[stay].end, worked_until_);
    std::erase(present_, stay);
  }

  const prepared_step& step_;
  const step_plan& plan_;
  std::vector<course> course_;
  std::vector<std::uint32_t> out_order_;
  std::vector<std::uint32_t> in_order_;
  std::size_t outs_ = 0;
  std::size_t ins_ = 0;
  std::vector<slab_stay> stays_;
  std::vector<slab_stay> accesses_;
  std::vector<std::size_t> untouched_;  // of stays_
  double worked_until_ = 0;
  std::vector<bool> begun_;
  std::size_t first_to_begin_ = 0;
  std::vector<std::size_t> present_;  // of stays_
  step_point reached_ = 0;
  std::uint32_t phase_ = 0;
  bool tried_ = false;
  double tried_at_ = 0;
  double late_s_ = 0;
};

}  // namespace hostoffload::inline v0::detail
