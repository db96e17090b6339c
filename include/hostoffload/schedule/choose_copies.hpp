#pragma once
// The search for the copies of a step: in a given window the least step time, or the least window for a given time.

#include <hostoffload/schedule/copy_chooser.hpp>
#include <hostoffload/schedule/slab_packing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

/// Copies that were chosen, and what they come to.
struct chosen_copies {
  std::vector<life_course> courses{};
  double step_s = never;
  std::size_t peak = 0;
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
  explicit copy_search(const prepared_step& step) : step_(step) {
    for (std::uint32_t i = 0; i < step.lives().size(); ++i) {
      if (step.lives()[i].has_gap) in_order_.push_back(i);
    }
    by_gap_.assign(in_order_.begin(), in_order_.end());
    std::stable_sort(in_order_.begin(), in_order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return step.lives()[a].gap_end < step.lives()[b].gap_end;
    });
    const auto gap = [&](std::uint32_t i) { return step.at(step.lives()[i].gap_end) - step.at(step.lives()[i].made); };
    std::stable_sort(by_gap_.begin(), by_gap_.end(), [&](std::uint32_t a, std::uint32_t b) { return gap(a) < gap(b); });
    by_bytes_ = by_gap_;
    std::stable_sort(by_bytes_.begin(), by_bytes_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return step.lives()[a].bytes > step.lives()[b].bytes; });
    std::map<std::pair<std::string_view, std::size_t>, std::vector<std::uint32_t>> by_name;
    for (const std::uint32_t i : in_order_) {
      const recorded_life& r = step.recorded().lives[step.lives()[i].life];
      by_name[{r.name, r.layer}].push_back(i);
    }
    for (auto& [name, alike] : by_name) alike_.push_back(std::move(alike));
    for (const planned_life& l : step.lives()) all_bytes_ += l.slot_bytes;
  }

  /// How long to look for copies where the simple ways do not do.
  enum class effort : std::uint8_t { little, much };

  /// The best found in a window; the first that takes no longer than `enough_s`.
  [[nodiscard]] chosen_copies in_window(std::size_t window, double enough_s, effort spent) const {
    search found{.window = window, .slab = window, .enough_s = enough_s};
    const auto good = [&](const way& how, std::vector<life_wish> wished) {
      return improve(found, how, std::move(wished));
    };
    for (const bool hidden_only : {true, false}) {
      for (const out_first first :
           {out_first::used_last, out_first::made_first, out_first::largest, out_first::smallest}) {
        if (good({place_by::neighbour, hidden_only}, wishes({}, first))) return found.best;
      }
    }
    const std::size_t most = std::min(window, all_bytes_);
    for (const auto* order : {&by_gap_, &by_bytes_}) {
      for (std::size_t part = parts; part > 0; --part) {
        if (good({place_by::neighbour, false}, wishes(kept(*order, most / parts * part), out_first::used_last)))
          return found.best;
      }
    }
    for (const place_by place : {place_by::offset, place_by::size}) {
      const bool any = found.best.step_s != never;
      if (good({place, any && found.how.hidden_only}, any ? found.wishes : wishes({}, out_first::used_last)))
        return found.best;
    }
    if (found.best.step_s == never) improve(found, {place_by::wish, false}, while_used(window));
    for (const bool hidden_only : {true, false}) {
      if (place_later(found, hidden_only)) return found.best;
    }
    vary(found, spent);
    return found.best;
  }

  /// Of all slots.
  [[nodiscard]] std::size_t all_bytes() const noexcept { return all_bytes_; }

private:
  static constexpr std::size_t parts = 8;
  static constexpr int patience = 4;                  // attempts that are no better than those before
  static constexpr std::size_t variations = 400'000;  // times lives
  static constexpr std::size_t most_variations = 2'000;
  static constexpr double worthwhile = 1.002;    // nobody looks on for less
  static constexpr double first_allowed = 0.01;  // longer than what is changed

  /// Which of the tensors that may leave goes first.
  enum class out_first : std::uint8_t { used_last, made_first, largest, smallest };

  struct way {
    place_by place = place_by::neighbour;
    bool hidden_only = false;
  };
  struct search {
    std::size_t window = 0;
    std::size_t slab = 0;  // bytes in which slots of as much as the window are placed
    double enough_s = 0;
    chosen_copies best{};
    std::vector<life_wish> wishes{};  // of the best
    way how{};
  };

  /// Those that do not leave: as many as fit into so many bytes at all times, the first in `order` first.
  [[nodiscard]] std::vector<bool> kept(const std::vector<std::uint32_t>& order, std::size_t bytes) const {
    std::vector<bool> all(step_.lives().size(), false);
    std::vector<std::size_t> held(step_.last_point(), 0);
    for (const std::uint32_t i : order) {
      const planned_life& l = step_.lives()[i];
      const auto begin = held.begin() + l.begin;
      const auto end = held.begin() + l.end;
      if (*std::max_element(begin, end) + l.slot_bytes > bytes) continue;
      std::for_each(begin, end, [&](std::size_t& sum) { sum += l.slot_bytes; });
      all[i] = true;
    }
    return all;
  }

  [[nodiscard]] std::vector<life_wish> wishes(const std::vector<bool>& kept, out_first first) const {
    std::vector<life_wish> all(step_.lives().size());
    for (std::size_t i = 0; i < kept.size(); ++i) all[i].keep = kept[i];
    for (std::size_t i = 0; i < all.size(); ++i) {
      const planned_life& l = step_.lives()[i];
      all[i].leaves_before = urgency(l, first);
      all[i].in_s = step_.in_s(l);
      all[i].until_back = step_.at(l.end);
      all[i].until = l.has_gap && !all[i].keep ? step_.at(l.gap_begin) + step_.out_s(l) : step_.at(l.end);
    }
    return all;
  }
  /// Places in which every slot that is in use has room, whatever the others do: there is always a step in them.
  [[nodiscard]] std::vector<life_wish> while_used(std::size_t window) const {
    std::vector<life_wish> all = wishes({}, out_first::used_last);
    std::vector<slab_stay> stays;
    for (const planned_life& l : step_.lives()) {
      const auto at = [](step_point p) { return static_cast<double>(p); };
      stays.push_back({.begin = at(l.begin), .end = at(l.has_gap ? l.gap_begin : l.end), .bytes = l.slot_bytes});
      if (l.has_gap) stays.push_back({.begin = at(l.gap_end), .end = at(l.end), .bytes = l.slot_bytes});
    }
    if (slab_packing(stays).pack() > window) return all;
    std::size_t n = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].offset = stays[n++].offset;
      if (step_.lives()[i].has_gap) all[i].offset_back = stays[n++].offset;
    }
    return all;
  }

  /// Chooses as if slots could be anywhere, and places them when all is known.
  bool place_later(search& found, bool hidden_only) const {
    search anywhere{.window = found.window, .slab = 2 * found.window, .enough_s = found.enough_s};
    improve(anywhere, {place_by::neighbour, hidden_only}, wishes({}, out_first::used_last));
    if (anywhere.best.step_s >= found.best.step_s) return false;
    std::vector<life_wish> wished = std::move(anywhere.wishes);
    std::vector<slab_stay> stays;
    for (std::size_t i = 0; i < wished.size(); ++i) {
      const life_course& c = anywhere.best.courses[i];
      const std::size_t bytes = step_.lives()[i].slot_bytes;
      stays.push_back({.begin = c.begin, .end = c.copied ? c.left : c.end, .bytes = bytes});
      if (c.copied) stays.push_back({.begin = c.in_start, .end = c.end, .bytes = bytes});
    }
    slab_packing(stays).pack();
    std::size_t n = 0;
    for (std::size_t i = 0; i < wished.size(); ++i) {
      wished[i].offset = stays[n++].offset;
      if (anywhere.best.courses[i].copied) wished[i].offset_back = stays[n++].offset;
    }
    chosen_copies seen;
    if (repeat(found, anywhere.how, wished, seen)) return true;
    return improve(found, anywhere.how, std::move(wished));
  }

  static double urgency(const planned_life& l, out_first first) noexcept {
    switch (first) {
      case out_first::made_first:
        return -static_cast<double>(l.made);
      case out_first::largest:
        return static_cast<double>(l.bytes);
      case out_first::smallest:
        return -static_cast<double>(l.bytes);
      case out_first::used_last:
        break;
    }
    return l.gap_end;
  }

  /// Tries once; true when that is good enough.
  bool attempt(search& found, const way& how, std::vector<life_wish>& wishes, const std::vector<bool>& copied,
               chosen_copies& seen) const {
    walk_back(wishes, copied);
    return repeat(found, how, wishes, seen);
  }

  bool repeat(search& found, const way& how, const std::vector<life_wish>& wishes, chosen_copies& seen) const {
    copy_chooser chooser(step_, wishes, in_order_, slab_places(found.slab, found.window, how.place), how.hidden_only);
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
      if (seen.step_s < best_s) left = patience;
      best_s = std::min(best_s, seen.step_s);
      learn(seen, wishes, copied);
      for (std::size_t i = 0; i < wishes.size(); ++i) wishes[i].lead_s += seen.courses[i].stalled_s;
    }
    return false;
  }

  static void learn(const chosen_copies& seen, std::vector<life_wish>& wishes, std::vector<bool>& copied) {
    for (std::size_t i = 0; i < wishes.size(); ++i) {
      const life_course& c = seen.courses[i];
      copied[i] = c.copied;
      if (c.copied) wishes[i].in_s = c.in_end - c.in_start;
      wishes[i].until = c.copied ? c.left : c.end;
      wishes[i].until_back = c.end;
    }
  }

  /// Changes what is wished for, at random, for one life or for those of the same name and layer, and keeps the changes
  /// that cost nothing or, at first, little.
  void vary(search& found, effort spent) const {
    const double goal_s = worthwhile * std::max(found.enough_s, least_step_s(step_));
    if (found.best.step_s == never || found.best.step_s <= goal_s || in_order_.empty()) return;
    std::minstd_rand draw;
    std::vector<bool> copied(found.wishes.size(), true);
    std::vector<life_wish> now = found.wishes;
    way how = found.how;
    chosen_copies seen = found.best;
    learn(seen, now, copied);
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
      learn(seen, next, next_copied);
      now = std::move(next);
      copied = std::move(next_copied);
    }
  }

  void change(std::vector<life_wish>& wishes, way& how, std::size_t window, std::minstd_rand& draw) const {
    const auto any = [&draw](const std::vector<std::uint32_t>& of) { return of[draw() % of.size()]; };
    const bool all_alike = draw() % 2 == 0;
    const std::vector<std::uint32_t>& alike = alike_[draw() % alike_.size()];
    const std::vector<std::uint32_t> alone{any(in_order_)};
    const auto what = draw() % 16;
    const double drawn = share(draw);
    const double before = wishes[any(in_order_)].leaves_before;
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

  /// Backwards over the uses: each copy in ends before its use and before the next one starts.
  void walk_back(std::vector<life_wish>& wishes, const std::vector<bool>& copied) const {
    double next = step_.compute_s();
    for (std::size_t n = in_order_.size(); n-- > 0;) {
      life_wish& w = wishes[in_order_[n]];
      w.latest = std::min(next, step_.at(step_.lives()[in_order_[n]].gap_end) - w.lead_s) - w.in_s;
      w.gate = step_.last_before(std::max(0.0, w.latest));
      if (!w.keep && copied[in_order_[n]]) next = w.latest;
    }
  }

  const prepared_step& step_;
  std::vector<std::uint32_t> in_order_;
  std::vector<std::uint32_t> by_gap_;              // the shortest first
  std::vector<std::uint32_t> by_bytes_;            // the largest first
  std::vector<std::vector<std::uint32_t>> alike_;  // the same tensor in each micro batch
  std::size_t all_bytes_ = 0;
};

}  // namespace hostoffload::inline v0::detail
