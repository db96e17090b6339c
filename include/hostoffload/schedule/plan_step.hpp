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

/// Nobody looks for a plan that is shorter by less than this part.
inline constexpr double close_to = 1.0001;

/// Seconds of a step that follows the plan; `never` when it would wait for itself.
[[nodiscard]] inline double follow(const prepared_step& step, const step_plan& plan) {
  plan_follower follower(step, plan);
  return run_timeline(step, follower);
}

/// The plan that makes the chosen copies.
[[nodiscard]] inline step_plan lay_out(const prepared_step& step, const chosen_copies& chosen) {
  step_plan plan;
  plan.compute_s = step.compute_s();
  plan.bound_s = least_step_s(step);
  plan.lives.resize(step.recorded().lives.size());
  std::vector<std::pair<double, std::uint32_t>> outs;
  std::vector<std::pair<double, std::uint32_t>> ins;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> slots;
  for (std::size_t i = 0; i < step.lives().size(); ++i) {
    const life_course& c = chosen.courses[i];
    const planned_life& l = step.lives()[i];
    life_plan& p = plan.lives[l.life];
    p.planned = true;
    p.copied = c.copied;
    p.offset = c.offset;
    slots.emplace_back(c.taken, l.life);
    plan.window_bytes = std::max(plan.window_bytes, c.offset + l.slot_bytes);
    if (!c.copied) continue;
    p.out_at = c.out_at;
    p.in_at = c.in_at;
    p.offset_back = c.offset_back;
    slots.emplace_back(c.taken_back, l.life);
    plan.window_bytes = std::max(plan.window_bytes, c.offset_back + l.slot_bytes);
    outs.emplace_back(c.out_start, l.life);
    ins.emplace_back(c.in_start, l.life);
  }
  const auto in_turn = [](auto& all, std::vector<std::uint32_t>& lives) {
    std::stable_sort(all.begin(), all.end());
    for (const auto& [when, life] : all) lives.push_back(life);
  };
  in_turn(outs, plan.out_order);
  in_turn(ins, plan.in_order);
  in_turn(slots, plan.slot_order);
  return plan;
}

/// Slots that lie closer together, where that makes the slab smaller and the step no longer. `stays`: when they were
/// held; `work` is spent on places for them.
inline void pack_closer(const prepared_step& step, step_plan& plan, std::vector<slab_stay>& stays, std::size_t work) {
  step_plan closer = plan;
  closer.window_bytes = slab_packing(stays).pack(work);
  if (closer.window_bytes >= plan.window_bytes) return;
  std::vector<bool> seen(plan.lives.size(), false);
  for (std::size_t i = 0; i < stays.size(); ++i) {
    const std::uint32_t life = plan.slot_order[i];
    (seen[life] ? closer.lives[life].offset_back : closer.lives[life].offset) = stays[i].offset;
    seen[life] = true;
  }
  plan_follower packed(step, closer);
  closer.step_s = run_timeline(step, packed);
  closer.alive_bytes = packed.alive_bytes();
  if (closer.step_s <= plan.step_s) plan = std::move(closer);
}

/// Runs the plan: its time, the bytes alive and, where that makes the slab smaller, slots that lie closer together.
/// False when the step would wait for itself.
[[nodiscard]] inline bool settle(const prepared_step& step, step_plan& plan) {
  plan_follower in_place(step, plan);
  plan.step_s = run_timeline(step, in_place);
  if (plan.step_s == never) return false;
  plan.alive_bytes = in_place.alive_bytes();
  if (plan.alive_bytes < plan.window_bytes) pack_closer(step, plan, in_place.stays(), slab_packing::usual_work);
  return true;
}

[[nodiscard]] inline std::optional<step_plan> settled(const prepared_step& step, const chosen_copies& chosen) {
  if (chosen.step_s == never) return std::nullopt;
  std::optional<step_plan> plan = lay_out(step, chosen);
  return settle(step, *plan) ? plan : std::nullopt;
}

[[nodiscard]] inline std::optional<step_plan> plan_within(const prepared_step& step, copy_search& search,
                                                          std::size_t window, double enough_s,
                                                          copy_search::effort spent) {
  const std::size_t bytes = window / slot_alignment * slot_alignment;
  const chosen_copies chosen = search.in_window(bytes, enough_s, spent);
  std::optional<step_plan> plan = settled(step, chosen);
  if (!chosen.places_bind) return plan;
  std::optional<step_plan> other = settled(step, search.in_window_reserving(bytes, enough_s, spent));
  return other && (!plan || other->step_s < plan->step_s) ? other : plan;
}

/// A plan that takes hardly longer and leaves less of its slab unused, where that is much and one is found.
inline void tighten(const prepared_step& step, copy_search& search, step_plan& plan) {
  const auto much = [](const step_plan& p) { return p.window_bytes > p.alive_bytes + p.alive_bytes / 36; };
  const double enough_s = 1.0005 * plan.step_s;
  constexpr int tries = 4;
  for (int i = 0; i < tries && much(plan); ++i) {
    bool better = false;
    for (const std::size_t part : {64U, 48U, 36U}) {
      const std::size_t room = plan.alive_bytes + plan.alive_bytes / part;
      std::optional<step_plan> tight = plan_within(step, search, room, enough_s, copy_search::effort::much);
      if (!tight || tight->step_s > enough_s) continue;
      plan = std::move(*tight);
      better = true;
      break;
    }
    if (!better) break;
  }
  if (!much(plan)) return;
  plan_follower as_planned(step, plan);
  run_timeline(step, as_planned);
  pack_closer(step, plan, as_planned.stays(), 10 * slab_packing::usual_work);
}

}  // namespace detail

/// The plan with the least step time that was found in a window of so many bytes; nothing when there is none: the
/// window is too small for what is leased at one time, or nearly so. Throws usage_error for a record that contradicts
/// itself.
[[nodiscard]] inline std::optional<step_plan> plan_step(const recorded_step& recorded, std::size_t window) {
  const detail::prepared_step step(recorded);
  detail::copy_search search(step);
  std::optional<step_plan> plan =
      detail::plan_within(step, search, window, detail::close_to * step.compute_s(), detail::copy_search::effort::much);
  if (plan) detail::tighten(step, search, *plan);
  return plan;
}

/// The plan with the smallest window that was found for a step time of at most `within` times the bound.
[[nodiscard]] inline step_plan plan_least_window(const recorded_step& recorded, double within = 1.01) {
  const detail::prepared_step step(recorded);
  detail::copy_search search(step);
  const double enough_s = within * detail::least_step_s(step);
  constexpr auto little = detail::copy_search::effort::little;  // it is looked for many times
  // With room for everything, and for what comes back, nothing waits.
  std::size_t works = 2 * search.all_bytes();
  std::optional<step_plan> best = detail::plan_within(step, search, works, enough_s, little);
  std::size_t fails = 0;
  if (best) works = best->window_bytes;
  while (works > fails && works - fails > works / 128) {
    const std::size_t middle = fails + (works - fails) / 2;
    std::optional<step_plan> plan = detail::plan_within(step, search, middle, enough_s, little);
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
