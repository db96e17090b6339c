#pragma once
// Which tensors leave the device, and when they come back, in a slab of a given size: a step is run in virtual time,
// each copy is decided when its direction is free, and each slot's place when it is taken. Copies out: the tensor that
// is used latest goes first, if it is gone for some time at all. Copies in: in the order of use, as late as they expose
// nothing.

#include <hostoffload/schedule/place_reservations.hpp>
#include <hostoffload/schedule/slab_places.hpp>
#include <hostoffload/schedule/step_timeline.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

/// What becomes of one life.
struct life_course {
  bool copied = false;       // it leaves, and comes back
  double begin = never;      // of its slot
  double left = never;       // the slot is free
  double end = never;        // so is the one that it came back to
  std::uint32_t out_at = 0;  // how far the compute stream was when the copy out started: see life_plan
  std::uint32_t in_at = 0;
  double out_start = never;
  double out_end = never;
  double in_start = never;
  double in_end = never;
  double stalled_s = 0;         // that the compute stream waited for it to come back
  std::size_t offset = 0;       // of its slot,
  std::size_t offset_back = 0;  // and of the one that it came back to
  std::uint32_t taken = 0;      // before the slots with higher numbers
  std::uint32_t taken_back = 0;
};

/// What the planner wants of one life.
struct life_wish {
  bool keep = false;         // it does not leave
  double leaves_before = 0;  // those that may leave at the same time and have less of this
  double latest = 0;         // its copy in starts at this second of compute,
  step_point gate = 0;       // which is behind this point
  double in_s = 0;           // seconds that its copy in takes
  double lead_s = 0;         // before its use, for what delays it
  double until = 0;          // its slot is given back at about this second, and the other one
  double until_back = 0;
  std::size_t offset = slab_places::nowhere;  // where they should be
  std::size_t offset_back = slab_places::nowhere;
};

class copy_chooser {
public:
  /// `hidden_only`: what cannot come back in time does not leave.
  copy_chooser(const prepared_step& step, const std::vector<life_wish>& wishes,
               const std::vector<std::uint32_t>& in_order, const slab_places& slab, bool hidden_only,
               place_reservations reserved)
      : step_(step),
        wishes_(wishes),
        in_order_(in_order),
        slab_(slab),
        reserved_(std::move(reserved)),
        hidden_only_(hidden_only),
        state_(step.lives().size(), where::nowhere),
        courses_(step.lives().size()),
        not_before_(step.lives().size(), 0) {}

  bool pass(step_point p, double now) {
    const bool first_try = !std::exchange(tried_, true);
    if (first_try) leave_behind(p, now);
    std::size_t needed = 0;
    bool waits = false;
    for (auto e = step_.events_begin(p); e != step_.events_end(p); ++e) {
      if (e->what == prepared_step::happening::begins) needed += step_.lives()[e->life].slot_bytes;
      if (e->what != prepared_step::happening::gap_ends) continue;
      const where s = state_[e->life];
      if (s != where::away && s != where::arriving) continue;
      if (first_try) late_.emplace_back(e->life, now);
      waits = true;
      if (s == where::away) needed += step_.lives()[e->life].slot_bytes;
    }
    wants_room_ = needed > slab_.free_bytes();
    if (waits || wants_room_) return false;
    if (!take_what_begins(p)) {
      wants_room_ = true;
      return false;
    }
    for (const auto& [life, since] : late_) courses_[life].stalled_s = now - since;
    late_.clear();
    for (auto e = step_.events_begin(p); e != step_.events_end(p); ++e) {
      if (e->what == prepared_step::happening::begins) {
        state_[e->life] = where::here;
        courses_[e->life].begin = now;
      }
      if (e->what == prepared_step::happening::gap_ends) state_[e->life] = where::back;
    }
    stuck_ = false;
    passed_ = p;
    passed_at_ = now;
    phase_ = 2 * p + 1;
    tried_ = false;
    return true;
  }

  [[nodiscard]] static double late_s() noexcept { return 0; }

  std::optional<std::uint32_t> pick(link_way w, double now) {
    return w == link_way::out ? pick_out(now) : pick_in(now);
  }

  void copied(link_way w, std::uint32_t life, double now) {
    if (w == link_way::in) {
      courses_[life].in_end = now;
      if (state_[life] == where::arriving) state_[life] = where::arrived;
      return;
    }
    courses_[life].out_end = now;
    if (state_[life] != where::leaving) return;  // taken over while it left
    state_[life] = where::copied;
    if (in_gap(life)) goes_away(life, now);
  }

  /// Everything waits for room: what would not come back in time leaves all the same; or else tensors take it that came
  /// back too early, and the one that is used last goes again.
  bool unblock() {
    if (!declined_.empty() && !std::exchange(stuck_, true)) return true;
    std::optional<std::uint32_t> latest;
    for (std::size_t i = in_order_.size(); i-- > 0 && !latest;) {
      if (state_[in_order_[i]] == where::arrived) latest = in_order_[i];
    }
    if (!latest) return false;
    slab_.give_back(courses_[*latest].offset_back);
    state_[*latest] = where::away;
    not_before_[*latest] = reached_ + 1;
    first_in_ = 0;
    return true;
  }

  [[nodiscard]] const std::vector<life_course>& courses() const noexcept { return courses_; }
  [[nodiscard]] std::size_t peak() const noexcept { return slab_.peak(); }

private:
  enum class where : std::uint8_t { nowhere, here, leaving, copied, away, arriving, arrived, back };

  void leave_behind(step_point p, double now) {
    reached_ = p;
    phase_ = 2 * p;
    for (auto e = step_.events_begin(p); e != step_.events_end(p); ++e) {
      const planned_life& l = step_.lives()[e->life];
      if (e->what == prepared_step::happening::ends) {
        life_course& c = courses_[e->life];
        state_[e->life] = where::nowhere;
        slab_.give_back(c.copied ? c.offset_back : c.offset);
        c.end = now;
      }
      if (e->what == prepared_step::happening::made && l.has_gap && !wishes_[e->life].keep) {
        candidates_.emplace(wishes_[e->life].leaves_before, e->life);
      }
      if (e->what == prepared_step::happening::gap_begins && state_[e->life] == where::copied) goes_away(e->life, now);
    }
  }

  /// A slot for a life that begins, or that comes back.
  std::optional<std::size_t> take(std::uint32_t life, bool is_back) {
    const life_wish& w = wishes_[life];
    const auto offset = slab_.take(step_.lives()[life].slot_bytes, is_back ? w.until_back : w.until,
                                   is_back ? w.offset_back : w.offset, reserved_.against(life, is_back));
    if (offset) reserved_.move(life, is_back, *offset);
    return offset;
  }

  /// Slots for all that begin at the point, or none.
  bool take_what_begins(step_point p) {
    for (auto e = step_.events_begin(p); e != step_.events_end(p); ++e) {
      if (e->what != prepared_step::happening::begins) continue;
      if (const auto offset = take(e->life, false)) {
        courses_[e->life].offset = *offset;
        courses_[e->life].taken = ++slots_;
        continue;
      }
      for (auto b = step_.events_begin(p); b != e; ++b) {
        if (b->what == prepared_step::happening::begins) slab_.give_back(courses_[b->life].offset);
      }
      return false;
    }
    return true;
  }

  [[nodiscard]] bool in_gap(std::uint32_t life) const noexcept { return step_.lives()[life].gap_begin <= reached_; }

  void goes_away(std::uint32_t life, double now) {
    state_[life] = where::away;
    courses_[life].left = now;
    courses_[life].copied = true;
    slab_.give_back(courses_[life].offset);
  }

  [[nodiscard]] double compute_so_far(double now) const noexcept {
    if (passed_ >= step_.last_point()) return step_.compute_s();
    return std::min(step_.at(passed_) + now - passed_at_, step_.at(passed_ + 1));
  }

  std::optional<std::uint32_t> pick_out(double now) {
    const double done = compute_so_far(now);
    while (!candidates_.empty()) {
      const std::uint32_t life = candidates_.top().second;
      candidates_.pop();
      const planned_life& l = step_.lives()[life];
      const double back_by = hidden_only_ ? wishes_[life].latest : step_.at(l.gap_end) - step_.in_s(l);
      if (state_[life] != where::here) continue;
      if (done + step_.out_s(l) >= back_by) {
        declined_.emplace(l.gap_end, life);
        continue;
      }
      return leave(life, now);
    }
    while ((wants_room_ || stuck_) &&
           !declined_.empty()) {  // the compute stream stands still: late is better than never
      const std::uint32_t life = declined_.top().second;
      declined_.pop();
      if (state_[life] == where::here && step_.lives()[life].gap_end > reached_) return leave(life, now);
    }
    return std::nullopt;
  }

  std::uint32_t leave(std::uint32_t life, double now) {
    state_[life] = where::leaving;
    courses_[life].out_start = now;
    courses_[life].out_at = phase_;
    return life;
  }

  std::optional<std::uint32_t> pick_in(double now) {
    const double done = compute_so_far(now);
    while (first_in_ < in_order_.size() && is_settled(in_order_[first_in_])) ++first_in_;
    for (std::size_t i = first_in_; i < in_order_.size(); ++i) {
      const std::uint32_t life = in_order_[i];
      if (wishes_[life].latest > done && wishes_[life].gate > reached_) break;
      if (state_[life] != where::away || not_before_[life] > reached_) continue;
      const auto offset = take(life, true);
      if (!offset) break;
      state_[life] = where::arriving;
      life_course& c = courses_[life];
      c.offset_back = *offset;
      c.taken_back = ++slots_;
      c.in_start = now;
      c.in_at = phase_;
      return life;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool is_settled(std::uint32_t life) const noexcept {
    const where s = state_[life];
    return s == where::arriving || s == where::arrived || s == where::back || step_.lives()[life].gap_end <= passed_;
  }

  const prepared_step& step_;
  const std::vector<life_wish>& wishes_;
  const std::vector<std::uint32_t>& in_order_;
  slab_places slab_;
  place_reservations reserved_;
  bool hidden_only_;

  std::vector<where> state_;
  std::vector<life_course> courses_;
  std::vector<step_point> not_before_;  // copies in
  std::priority_queue<std::pair<double, std::uint32_t>> candidates_;
  std::priority_queue<std::pair<step_point, std::uint32_t>> declined_;  // would not come back in time
  std::size_t first_in_ = 0;
  std::uint32_t slots_ = 0;
  step_point reached_ = 0;
  std::uint32_t phase_ = 0;
  step_point passed_ = 0;
  double passed_at_ = 0;
  bool tried_ = false;
  bool wants_room_ = false;
  bool stuck_ = false;                                  // so does everything else
  std::vector<std::pair<std::uint32_t, double>> late_;  // at the point that is tried, since when
};

}  // namespace hostoffload::inline v0::detail
