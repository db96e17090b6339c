#include "answer.hpp"

#include "words.hpp"

#include "planner/bound.hpp"
#include "planner/search.hpp"

#include <algorithm>
#include <stdexcept>

namespace planner {
namespace {

/// Where a name may not be placed so, it is saved.
mix uniform(const problem& p, ho::choice chosen) {
  mix m(p.names.size(), p.layers, ho::choice::save);
  for (std::size_t name = 0; name < p.names.size(); ++name) {
    if (p.names[name].may.has(chosen)) m.set(name, {0, p.layers, chosen});
  }
  return m;
}

/// Of all that was tried, what comes nearest to the budgets.
std::string what_is_missing(const std::vector<stepped>& tried, const budgets& within) {
  const auto over = [](std::size_t needed, std::size_t budget) { return needed - std::min(needed, budget); };
  const auto missing = [&](const stepped& s) {
    return over(s.device_bytes, within.device) + over(s.host_bytes, within.host);
  };
  const auto least = std::min_element(tried.begin(), tried.end(),
                                      [&](const stepped& x, const stepped& y) { return missing(x) < missing(y); });
  return "no placement of the step's tensors fits: the nearest of " + std::to_string(tried.size()) +
         " takes at least " + size_text(least->device_bytes) + " of device memory and " + size_text(least->host_bytes) +
         " of host memory, and there are " + size_text(within.device) + " and " + size_text(within.host);
}

evaluation as_evaluation(const stepped& s) { return {s.fits, s.step_s, s.device_bytes, s.host_bytes}; }

}  // namespace

record_answer answer_of(const step_program& program, const record_problem& p, const budgets& within,
                        const ho::virtual_gpu::machine& m, std::size_t evaluations) {
  std::vector<stepped> all;
  const auto step = [&](const mix& placed, bool plan) {
    return all.emplace_back(step_with(program, placements_of(p, placed), within, m, {.plan = plan}));
  };
  record_answer a;
  const auto add = [&](const std::string& name, const mix& placed) {
    a.plain.push_back({name, placed, step(placed, false)});
  };
  add("save all", uniform(p.asked, ho::choice::save));
  add("offload all", uniform(p.asked, ho::choice::offload));
  add("remat all", uniform(p.asked, ho::choice::remat));
  add("as recorded", p.recorded);

  const auto evaluate = [&](std::size_t, const mix& placed) { return as_evaluation(step(placed, false)); };
  const answer found = search({p.asked}, evaluate, {evaluations});
  a.evaluations = found.tried.size() + a.plain.size();
  a.least_step_s = bound_step(p.at_peak);
  std::optional<mix> best;
  double best_s = 0;
  const auto compare = [&](const mix& placed, bool fits, double step_s) {
    if (!fits || (best && step_s >= best_s)) return;
    best = placed;
    best_s = step_s;
  };
  if (found.best) compare(found.best->placed, true, found.best->seen.step_s);
  for (const tried_placement& t : a.plain) compare(t.placed, t.seen.fits, t.seen.step_s);
  if (!best) throw std::runtime_error(what_is_missing(all, within));
  a.best = {"best", tidied(p.asked, *best), {}};
  a.best->seen = step(a.best->placed, false);
  a.best_planned = step(a.best->placed, true);
  return a;
}

}  // namespace planner
