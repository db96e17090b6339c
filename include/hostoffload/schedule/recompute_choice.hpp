#pragma once
// Which of the tensors that are placed as offload_or_remat are made again instead of copied, so that the predicted step
// is least.

#include <hostoffload/schedule/plan_step.hpp>
#include <hostoffload/schedule/supposed_step.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

/// The window, and what one branch after the other needs of it when all is copied.
struct window_use {
  std::size_t bytes = 0;
  std::size_t reserve = 0;
};

/// Predicted seconds; 0 where there is no plan in the window.
struct recompute_choice {
  maker_set dropped{};
  double step_s = 0;     ///< as chosen
  double offload_s = 0;  ///< of the step in which all are copied
  double remat_s = 0;    ///< in which all that can be are made again
  std::string_view why{};
};

class recompute_search {
public:
  /// A step is not made longer than its kernels take by more than this part: then all copies are hidden.
  static constexpr double hidden = 1.01;
  /// Less than this part is not worth a recomputation.
  static constexpr double worthwhile = 0.01;
  /// Plans made for one choice.
  static constexpr int most_plans = 16;

  recompute_search(const std::vector<trace_entry>& trace, const recorded_step& whole, window_use window)
      : trace_(trace), whole_(whole), window_(window) {}

  /// `offloaded`: the plan of the step in which all are copied.
  [[nodiscard]] recompute_choice choose(const step_plan& offloaded) {
    recompute_choice best{.step_s = offloaded.step_s, .offload_s = offloaded.step_s};
    std::vector<kind> kinds = kinds_of(candidates());
    if (kinds.empty()) return best;
    if (offloaded.step_s <= hidden * offloaded.compute_s) {
      best.why = "all copies are hidden";
      return best;
    }
    kinds = fit_only(std::move(kinds));
    best.why = "none can be made again of what is there";
    if (kinds.empty()) return best;
    search(kinds, best);
    const bool chosen = best.step_s <= (1 - worthwhile) * best.offload_s;
    if (!chosen) best.dropped.clear();
    if (!chosen) best.step_s = best.offload_s;
    best.why =
        chosen ? "the copies of all cannot be hidden" : "to make some of them again would gain less than a hundredth";
    return best;
  }

private:
  /// Define functions of tensors with the same names, in the order in which they run.
  struct kind {
    std::vector<const maker*> makers{};
    double freed_per_s = 0;  // seconds of the link for one of recomputation
  };
  enum class turn : std::uint8_t { spread, last_first, first_first };

  /// Define functions whose tensors all may be dropped, in the order in which they run.
  [[nodiscard]] std::vector<const maker*> candidates() const {
    std::vector<const maker*> all;
    maker_set seen;
    for (const trace_entry& e : trace_) {
      if (e.what != trace_event::making || e.flag || !seen.insert(e.by).second) continue;
      const bool may = std::all_of(e.by->members.begin(), e.by->members.end(), [](const tensor_record* t) {
        return t->wanted == choice::offload_or_remat && t->in_window() && t->pattern.known();
      });
      if (may) all.push_back(e.by);
    }
    return all;
  }

  [[nodiscard]] std::vector<kind> kinds_of(const std::vector<const maker*>& makers) const {
    std::vector<kind> all;
    std::map<std::vector<std::string_view>, std::size_t> known;
    for (const maker* m : makers) {
      std::vector<std::string_view> names;
      for (const tensor_record* t : m->members) names.push_back(t->name);
      const auto [found, is_new] = known.try_emplace(names, all.size());
      if (is_new) all.emplace_back();
      all[found->second].makers.push_back(m);
    }
    return all;
  }

  /// Without those that could not run when all the others are dropped; those that free the most of the link first.
  [[nodiscard]] std::vector<kind> fit_only(std::vector<kind> kinds) {
    while (true) {
      const maker_set all = first_of(kinds, turn::first_first, ~std::size_t{0});
      const supposed_step step(trace_, whole_, all);
      if (!step.unfit().empty()) {
        for (kind& k : kinds) std::erase_if(k.makers, [&](const maker* m) { return step.unfit().contains(m); });
        std::erase_if(kinds, [](const kind& k) { return k.makers.empty(); });
        continue;
      }
      for (kind& k : kinds) {
        double link = 0;
        double run = 0;
        for (const maker* m : k.makers) {
          for (const tensor_record* t : m->members) link += copy_s(t->bytes);
          run += step.run_s(*m);
        }
        k.freed_per_s = link / std::max(run, 1e-12);
      }
      std::stable_sort(kinds.begin(), kinds.end(),
                       [](const kind& a, const kind& b) { return a.freed_per_s > b.freed_per_s; });
      return kinds;
    }
  }
  [[nodiscard]] double copy_s(std::size_t bytes) const noexcept {
    const auto b = static_cast<double>(bytes);
    return whole_.out.latency_s + b / whole_.out.rate + whole_.in.latency_s + b / whole_.in.rate;
  }

  /// The first `count` of them: kind by kind, and within one as `in` says.
  [[nodiscard]] static maker_set first_of(const std::vector<kind>& kinds, turn in, std::size_t count) {
    maker_set all;
    for (const kind& k : kinds) {
      const std::size_t n = k.makers.size();
      const std::size_t taken = std::min(n, count);
      count -= taken;
      for (std::size_t i = 0; i < taken; ++i) {
        const std::size_t at =
            in == turn::spread ? (2 * i + 1) * n / (2 * taken) : (in == turn::last_first ? n - 1 - i : i);
        all.insert(k.makers[at]);
      }
    }
    return all;
  }

  /// Predicted seconds of the step that drops these; `never` where it does not fit.
  [[nodiscard]] double step_s(const maker_set& dropped, double enough_s) {
    const supposed_step supposed(trace_, whole_, dropped);
    if (!supposed.unfit().empty()) return never;
    const std::size_t reserve = std::max(window_.reserve, supposed.least_window());
    if (reserve >= window_.bytes) return never;
    const prepared_step step(supposed.windowed());
    if (step.compute_s() >= enough_s) return step.compute_s();
    --plans_left_;
    copy_search search(step);
    const auto plan =
        plan_within(step, search, window_.bytes - reserve, close_to * step.compute_s(), copy_search::effort::little);
    return plan ? plan->step_s : never;
  }

  void search(const std::vector<kind>& kinds, recompute_choice& best) {
    std::size_t all = 0;
    for (const kind& k : kinds) all += k.makers.size();
    std::size_t best_count = 0;
    const auto attempt = [&](std::size_t count, turn in) {
      maker_set dropped = first_of(kinds, in, count);
      const double s = step_s(dropped, best.step_s);
      if (s < best.step_s) {
        best.step_s = s;
        best.dropped = std::move(dropped);
        best_count = count;
      }
      return s;
    };
    const double remat = attempt(all, turn::spread);
    best.remat_s = remat == never ? 0 : remat;
    constexpr std::size_t parts = 8;
    std::size_t apart = (all + parts - 1) / parts;
    for (std::size_t count = apart; count < all; count += apart) attempt(count, turn::spread);
    for (; apart > 1 && plans_left_ > 2; apart = (apart + 1) / 2) {
      const std::size_t near = (apart + 1) / 2;
      const std::size_t middle = best_count;
      if (middle > near) attempt(middle - near, turn::spread);
      if (middle + near < all && plans_left_ > 2) attempt(middle + near, turn::spread);
    }
    for (const turn in : {turn::last_first, turn::first_first}) {
      if (best_count != 0 && best_count != all && plans_left_ > 0) attempt(best_count, in);
    }
  }

  const std::vector<trace_entry>& trace_;
  const recorded_step& whole_;
  window_use window_;
  int plans_left_ = most_plans;
};

}  // namespace hostoffload::inline v0::detail
