#pragma once
// The search for the copies of a step: in a given window the least step time, or the least window for a given time.

#include <hostoffload/schedule/copy_chooser.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
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
    for (const planned_life& l : step.lives()) all_bytes_ += l.slot_bytes;
  }

  /// The best found in a window; the first that takes no longer than `enough_s`.
  [[nodiscard]] chosen_copies in_window(std::size_t window, double enough_s) const {
    chosen_copies best;
    for (const bool hidden_only : {true, false}) {
      for (const out_first f : {out_first::used_last, out_first::made_first, out_first::largest, out_first::smallest}) {
        improve(best, window, 0, hidden_only, enough_s, f);
        if (best.step_s <= enough_s) return best;
      }
    }
    const std::size_t most = std::min(window, all_bytes_);
    for (std::size_t part = 1; part <= parts; ++part) {
      improve(best, window, most / parts * part, false, enough_s, out_first::used_last);
      if (best.step_s <= enough_s) return best;
    }
    return best;
  }

  /// Of all slots.
  [[nodiscard]] std::size_t all_bytes() const noexcept { return all_bytes_; }

private:
  static constexpr std::size_t parts = 8;
  static constexpr int rounds = 5;

  void improve(chosen_copies& best, std::size_t window, std::size_t keep, bool hidden_only, double enough_s,
               out_first first) const {
    std::vector<life_wish> wishes(step_.lives().size());
    std::size_t kept = 0;
    for (const std::uint32_t i : by_gap_) {
      const std::size_t bytes = step_.lives()[i].slot_bytes;
      if (kept + bytes > keep) break;
      kept += bytes;
      wishes[i].keep = true;
    }
    for (std::size_t i = 0; i < wishes.size(); ++i) wishes[i].in_s = step_.in_s(step_.lives()[i]);
    std::vector<bool> copied(wishes.size(), true);
    for (int round = 0; round < rounds; ++round) {
      walk_back(wishes, copied);
      copy_chooser chooser(step_, wishes, in_order_, window, hidden_only, first);
      const double step_s = run_timeline(step_, chooser);
      if (step_s < best.step_s) best = {chooser.courses(), step_s, chooser.peak()};
      if (best.step_s <= enough_s || step_s == never) return;
      for (std::size_t i = 0; i < wishes.size(); ++i) {
        const life_course& c = chooser.courses()[i];
        copied[i] = c.copied;
        if (c.copied) wishes[i].in_s = c.in_end - c.in_start;
        wishes[i].lead_s += c.stalled_s;
      }
    }
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
  std::vector<std::uint32_t> by_gap_;
  std::size_t all_bytes_ = 0;
};

}  // namespace hostoffload::inline v0::detail
