#pragma once
// From a recorded step to a plan for the ones that follow. Pure computation: no CUDA, and nothing is kept.

#include <hostoffload/schedule/choose_copies.hpp>
#include <hostoffload/schedule/plan_follower.hpp>
#include <hostoffload/schedule/step_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace hostoffload::inline v0 {

namespace detail {

/// Seconds of a step that follows the plan; `never` when it would wait for itself.
[[nodiscard]] inline double follow(const prepared_step& step, const step_plan& plan) {
  plan_follower follower(step, plan);
  return run_timeline(step, follower);
}

/// Lays the chosen copies out in one slab. Nothing when they cannot follow one another there.
[[nodiscard]] inline std::optional<step_plan> lay_out(const prepared_step& step, const chosen_copies& chosen) {
  step_plan plan;
  plan.compute_s = step.compute_s();
  plan.bound_s = least_step_s(step);
  plan.lives.resize(step.recorded().lives.size());
  struct owner {
    std::uint32_t life;
    bool back;
  };
  std::vector<std::pair<double, std::uint32_t>> outs;
  std::vector<std::pair<double, std::uint32_t>> ins;
  std::vector<slab_stay> stays;
  std::vector<owner> owners;
  for (std::size_t i = 0; i < step.lives().size(); ++i) {
    const life_course& c = chosen.courses[i];
    const std::uint32_t life = step.lives()[i].life;
    const std::size_t bytes = step.lives()[i].slot_bytes;
    life_plan& p = plan.lives[life];
    p.planned = true;
    p.copied = c.copied;
    stays.push_back({.begin = c.begin, .end = c.copied ? c.left : c.end, .bytes = bytes});
    owners.push_back({life, false});
    if (!c.copied) continue;
    stays.push_back({.begin = c.in_start, .end = c.end, .bytes = bytes});
    owners.push_back({life, true});
    p.out_at = c.out_at;
    p.in_at = c.in_at;
    outs.emplace_back(c.out_start, life);
    ins.emplace_back(c.in_start, life);
  }
  std::stable_sort(outs.begin(), outs.end());
  std::stable_sort(ins.begin(), ins.end());
  for (const auto& [start, life] : outs) plan.out_order.push_back(life);
  for (const auto& [start, life] : ins) plan.in_order.push_back(life);
  plan.window_bytes = slab_packing(stays).pack();
  std::vector<std::uint32_t> order(stays.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return stays[a].begin < stays[b].begin; });
  for (const std::uint32_t i : order) {
    life_plan& p = plan.lives[owners[i].life];
    (owners[i].back ? p.offset_back : p.offset) = stays[i].offset;
    plan.slot_order.push_back(owners[i].life);
  }
  plan_follower in_place(step, plan);
  plan.step_s = run_timeline(step, in_place);
  plan.alive_bytes = slab_packing(in_place.stays()).largest_sum();
  if (plan.step_s == never) return std::nullopt;
  return plan;
}

/// Lays out copies chosen for at most `window` bytes, with less room for them as long as the slab becomes larger.
[[nodiscard]] inline std::optional<step_plan> plan_within(const prepared_step& step, const copy_search& search,
                                                          std::size_t window, double enough_s) {
  constexpr int tries = 16;
  std::size_t room = window;
  for (int i = 0; i < tries; ++i) {
    const chosen_copies chosen = search.in_window(room, enough_s);
    if (chosen.step_s == never) break;
    std::optional<step_plan> plan = lay_out(step, chosen);
    if (plan && plan->window_bytes <= window) return plan;
    room = std::min(room, chosen.peak) - std::min(std::min(room, chosen.peak), window / 64);
  }
  return std::nullopt;
}

}  // namespace detail

/// The plan with the least step time that was found in a window of so many bytes; nothing when there is none: the
/// window is too small for what is leased at one time, or nearly so. Throws usage_error for a record that contradicts
/// itself.
[[nodiscard]] inline std::optional<step_plan> plan_step(const recorded_step& recorded, std::size_t window) {
  const detail::prepared_step step(recorded);
  return detail::plan_within(step, detail::copy_search(step), window, step.compute_s());
}

/// The plan with the smallest window that was found for a step time of at most `within` times the bound.
[[nodiscard]] inline step_plan plan_least_window(const recorded_step& recorded, double within = 1.01) {
  const detail::prepared_step step(recorded);
  const detail::copy_search search(step);
  const double enough_s = within * detail::least_step_s(step);
  // With room for everything nothing has to leave.
  std::size_t works = search.all_bytes();
  std::optional<step_plan> best = detail::plan_within(step, search, works, enough_s);
  std::size_t fails = 0;
  if (best) works = best->window_bytes;
  while (works > fails && works - fails > works / 128) {
    const std::size_t middle = fails + (works - fails) / 2;
    std::optional<step_plan> plan = detail::plan_within(step, search, middle, enough_s);
    if (plan && plan->step_s <= enough_s) {
      works = plan->window_bytes;
      best = std::move(plan);
    } else {
      fails = middle;
    }
  }
  return best.value();
}

}  // namespace hostoffload::inline v0
