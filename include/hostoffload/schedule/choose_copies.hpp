#pragma once
// The search for the copies of a step: in a given window the least step time, or the least window for a given time.

#include <hostoffload/schedule/copy_wishes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

/// Copies that were chosen, and what they come to.
struct chosen_copies {
  std::vector<life_course> courses{};
  double step_s = never;
  std::size_t peak = 0;
  bool places_bind = false;  // with slots anywhere the step was much shorter
};

/// Seconds below which no step of which every tensor with a gap is copied can be: compute alone; the first tensor, then
/// all copies out; all copies in, then what follows the last one's use.
[[nodiscard]] inline double least_step_s(const prepared_step& step) {
  double out = 0;
  double in = 0;
  double first_made = never;
  step_point last_use = 0;
  for (const planned_life& l : step.lives()) {
    if (!l.has_gap) continue;
    out += step.out_s(l);
    in += step.in_s(l);
    first_made = std::min(first_made, step.at(l.made));
    last_use = std::max(last_use, l.gap_end);
  }
  if (out == 0) return step.compute_s();
  return std::max({step.compute_s(), first_made + out, in + step.compute_s() - step.at(last_use)});
}

class copy_search {
public:
  explicit copy_search(const prepared_step& step) : step_(step), wishes_(step) {}

  /// How long to look for copies where the simple ways do not do.
  enum class effort : std::uint8_t { little, much };

  /// The best found in a window; the first that takes no longer than `enough_s`.
  [[nodiscard]] chosen_copies in_window(std::size_t window, double enough_s, effort spent) {
    search found{.window = window, .slab = std::min(window, 2 * wishes_.all_bytes()), .enough_s = enough_s};
    const auto good = [&](const way& how, std::vector<life_wish> wished) {
      return improve(found, how, std::move(wished));
    };
    for (const bool hidden_only : {true, false}) {
      for (const out_first first :
           {out_first::used_last, out_first::made_first, out_first::largest, out_first::smallest}) {
        if (good({place_by::neighbour, hidden_only}, wishes_.first({}, first))) return found.best;
      }
    }
    const std::size_t most = std::min(window, wishes_.all_bytes());
    for (const auto* order : {&wishes_.by_gap(), &wishes_.by_bytes()}) {
      for (std::size_t part = parts; part > 0; --part) {
        if (good({place_by::neighbour, false},
                 wishes_.first(wishes_.kept(*order, most / parts * part), out_first::used_last)))
          return found.best;
      }
    }
    for (const place_by place : {place_by::offset, place_by::size}) {
      const bool any = found.best.step_s != never;
      if (good({place, any && found.how.hidden_only}, any ? found.wishes : wishes_.first({}, out_first::used_last)))
        return found.best;
    }
    if (found.best.step_s == never && least().bytes() <= window)
      improve(found, {place_by::wish, false}, wishes_.in_places(least()));
    double anywhere_s = never;
    for (const bool hidden_only : {true, false}) {
      if (place_later(found, hidden_only, anywhere_s)) return found.best;
    }
    vary(found, spent);
    found.best.places_bind = found.best.step_s == never || found.best.step_s > much_longer * anywhere_s;
    return found.best;
  }

  /// The same with places that are kept free for what must be on the device at one time: for where places bind.
  [[nodiscard]] chosen_copies in_window_reserving(std::size_t window, double enough_s, effort spent) {
    search found{.window = window, .slab = std::min(window, 2 * wishes_.all_bytes()), .enough_s = enough_s};
    if (least().bytes() > window) return found.best;
    for (const bool hidden_only : {true, false}) {
      for (const place_by place : {place_by::neighbour, place_by::offset, place_by::size}) {
        if (improve(found, {place, hidden_only, &least()}, wishes_.first({}, out_first::used_last))) return found.best;
      }
    }
    vary(found, spent);
    return found.best;
  }

  /// Of all slots.
  [[nodiscard]] std::size_t all_bytes() const noexcept { return wishes_.all_bytes(); }

private:
  [[nodiscard]] const least_stays& least() {
    if (!least_) least_.emplace(step_);
    return *least_;
  }

  static constexpr std::size_t parts = 8;
  static constexpr int patience = 4;                  // attempts that are no better than those before
  static constexpr std::size_t variations = 400'000;  // times lives
  static constexpr std::size_t most_variations = 2'000;
  static constexpr double worthwhile = 1.002;    // nobody looks on for less
  static constexpr double much_longer = 1.01;    // than with slots anywhere
  static constexpr double first_allowed = 0.01;  // longer than what is changed

  struct way {
    place_by place = place_by::neighbour;
    bool hidden_only = false;
    const least_stays* reserved = nullptr;  // places that are kept free
  };
  struct search {
    std::size_t window = 0;
    std::size_t slab = 0;  // bytes in which slots of as much as the window are placed
    double enough_s = 0;
    chosen_copies best{};
    std::vector<life_wish> wishes{};  // of the best
    way how{};
  };

  /// Chooses as if slots could be anywhere, and places them when all is known.
  bool place_later(search& found, bool hidden_only, double& anywhere_s) const {
    search anywhere{
        .window = found.window, .slab = 2 * std::min(found.window, wishes_.all_bytes()), .enough_s = found.enough_s};
    improve(anywhere, {place_by::neighbour, hidden_only}, wishes_.first({}, out_first::used_last));
    anywhere_s = std::min(anywhere_s, anywhere.best.step_s);
    if (anywhere.best.step_s >= found.best.step_s) return false;
    std::vector<life_wish> wished = std::move(anywhere.wishes);
    wishes_.place_as_packed(anywhere.best.courses, wished);
    chosen_copies seen;
    if (repeat(found, anywhere.how, wished, seen)) return true;
    return improve(found, anywhere.how, std::move(wished));
  }

  /// Tries once; true when that is good enough.
  bool attempt(search& found, const way& how, std::vector<life_wish>& wishes, const std::vector<bool>& copied,
               chosen_copies& seen) const {
    wishes_.walk_back(wishes, copied);
    return repeat(found, how, wishes, seen);
  }

  bool repeat(search& found, const way& how, const std::vector<life_wish>& wishes, chosen_copies& seen) const {
    copy_chooser chooser(step_, wishes, wishes_.in_order(), slab_places(found.slab, found.window, how.place),
                         how.hidden_only, place_reservations(how.reserved));
    seen.step_s = run_timeline(step_, chooser);
    seen.courses = chooser.courses();
    seen.peak = chooser.peak();
    if (seen.step_s < found.best.step_s) {
      found.best = seen;
      found.wishes = wishes;
      found.how = how;
    }
    return found.best.step_s <= found.enough_s;
  }

  /// Tries, and again with what was seen.
  bool improve(search& found, const way& how, std::vector<life_wish> wishes) const {
    std::vector<bool> copied(wishes.size(), true);
    chosen_copies seen;
    double best_s = never;
    for (int left = patience; left > 0; --left) {
      if (attempt(found, how, wishes, copied, seen)) return true;
      if (seen.step_s == never) return false;
      if (seen.step_s < best_s * (1 - 1e-5)) left = patience;
      best_s = std::min(best_s, seen.step_s);
      copy_wishes::learn(seen.courses, wishes, copied);
      for (std::size_t i = 0; i < wishes.size(); ++i) wishes[i].lead_s += seen.courses[i].stalled_s;
    }
    return false;
  }

  /// Changes what is wished for, at random, for one life or for those of the same name and layer, and keeps the changes
  /// that cost nothing or, at first, little.
  void vary(search& found, effort spent) const {
    const double goal_s = worthwhile * std::max(found.enough_s, least_step_s(step_));
    if (found.best.step_s == never || found.best.step_s <= goal_s || wishes_.in_order().empty()) return;
    std::minstd_rand draw;
    std::vector<bool> copied(found.wishes.size(), true);
    std::vector<life_wish> now = found.wishes;
    way how = found.how;
    chosen_copies seen = found.best;
    copy_wishes::learn(seen.courses, now, copied);
    double now_s = seen.step_s;
    const std::size_t all = std::min(most_variations, variations / now.size()) / (spent == effort::little ? 10 : 1);
    for (std::size_t i = 0; i < all && found.best.step_s > goal_s; ++i) {
      std::vector<life_wish> next = now;
      way next_how = how;
      for (std::size_t changes = 1 + draw() % 3; changes > 0; --changes) change(next, next_how, found.window, draw);
      std::vector<bool> next_copied = copied;
      attempt(found, next_how, next, next_copied, seen);
      const double allowed = first_allowed * static_cast<double>(all - i) / static_cast<double>(all);
      if (seen.step_s > now_s * (1 + allowed * share(draw))) continue;
      now_s = seen.step_s;
      how = next_how;
      copy_wishes::learn(seen.courses, next, next_copied);
      now = std::move(next);
      copied = std::move(next_copied);
    }
  }

  void change(std::vector<life_wish>& wishes, way& how, std::size_t window, std::minstd_rand& draw) const {
    const auto any = [&draw](const std::vector<std::uint32_t>& of) { return of[draw() % of.size()]; };
    const bool all_alike = draw() % 2 == 0;
    const std::vector<std::uint32_t>& alike = wishes_.alike()[draw() % wishes_.alike().size()];
    const std::vector<std::uint32_t> alone{any(wishes_.in_order())};
    const auto what = draw() % 16;
    const double drawn = share(draw);
    const double before = wishes[any(wishes_.in_order())].leaves_before;
    const std::size_t offset = draw() % (window / slot_alignment) * slot_alignment;
    if (what == 0) how.hidden_only = !how.hidden_only;
    if (what == 1) how.place = static_cast<place_by>(draw() % 3);
    const bool keep = !wishes[all_alike ? any(alike) : alone.front()].keep;
    for (const std::uint32_t i : all_alike ? alike : alone) {
      life_wish& w = wishes[i];
      if (what >= 2 && what < 6) w.keep = keep;
      if (what >= 6 && what < 9) w.lead_s = 2 * drawn * w.in_s;
      if (what >= 9 && what < 12) w.leaves_before = before;
      if (what == 12) w.offset = w.offset_back = slab_places::nowhere;
      if (what == 13 || what == 14) w.offset = offset;
      if (what == 15) w.offset_back = offset;
    }
  }

  static double share(std::minstd_rand& draw) {
    return static_cast<double>(draw()) / static_cast<double>(std::minstd_rand::max());
  }

  const prepared_step& step_;
  copy_wishes wishes_;
  std::optional<least_stays> least_;  // once it was asked for
};

}  // namespace hostoffload::inline v0::detail
