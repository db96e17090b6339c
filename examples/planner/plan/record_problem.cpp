#include "record_problem.hpp"

#include <hostoffload/memory/slot_size.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace planner {
namespace {

using cells = std::vector<cell>;

bool before(cell a, cell b) { return std::pair(a.name, a.layer) < std::pair(b.name, b.layer); }

cells cells_of(const record_problem& p, const std::vector<std::size_t>& tensors) {
  cells all;
  for (const std::size_t t : tensors) all.push_back(p.cell_of[t]);
  std::sort(all.begin(), all.end(), before);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

/// Names are numbered in the order in which the first of each is made.
void name_tensors(const step_program& program, record_problem& p) {
  std::vector<life_span> in_order = program.lives;
  std::stable_sort(in_order.begin(), in_order.end(),
                   [](const life_span& a, const life_span& b) { return a.made < b.made; });
  std::map<std::string, std::size_t> numbers;
  for (const life_span& l : in_order) {
    const auto [found, is_new] = numbers.try_emplace(program.tensors[l.tensor].name, numbers.size());
    if (is_new) p.asked.names.push_back({found->first, {}});
  }
  for (const program_tensor& t : program.tensors) p.cell_of.push_back({numbers.at(t.name), t.layer});
  p.asked.layers = program.layers;
  p.asked.bytes.assign(p.asked.names.size() * program.layers, 0);
  p.recorded = mix(p.asked.names.size(), program.layers, ho::choice::save);
  for (std::size_t t = program.tensors.size(); t-- > 0;) {
    p.asked.bytes[p.asked.at(p.cell_of[t])] += ho::detail::slot_size(program.tensors[t].bytes);
    p.recorded.set(p.cell_of[t], program.tensors[t].placed);
  }
}

/// Definitions that make the same cells are one to the planner; `runs` says how often each runs again.
template <class Runs>
std::vector<making> makings_of(const step_program& program, const record_problem& p, const Runs& runs) {
  std::vector<making> all;
  for (std::size_t d = 0; d < program.definitions.size(); ++d) {
    const definition& from = program.definitions[d];
    const cells makes = cells_of(p, from.makes);
    const auto known = std::find_if(all.begin(), all.end(), [&](const making& m) { return m.makes == makes; });
    making& m = known != all.end() ? *known : all.emplace_back(making{makes, 0});
    m.seconds += from.seconds * runs(d);
  }
  return all;
}

/// A cell that two of the makings make would be made twice: none of its name is remat then.
void permit(const step_program& program, record_problem& p) {
  std::vector<std::size_t> makers(p.asked.bytes.size(), 0);
  for (const making& m : p.asked.makings) {
    for (const cell c : m.makes) ++makers[p.asked.at(c)];
  }
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    const cell c = p.cell_of[t];
    if (!program.tensors[t].made_by || makers[p.asked.at(c)] != 1) p.asked.names[c.name].may.remat = false;
  }
  std::erase_if(p.asked.makings, [&](const making& m) {
    return std::any_of(m.makes.begin(), m.makes.end(), [&](cell c) { return makers[p.asked.at(c)] != 1; });
  });
}

/// The earliest moment at which most bytes are alive: made, and not used for the last time.
double peak_of(const step_program& program) {
  std::vector<std::pair<double, double>> changes;  // seconds, bytes; at one time first what ends
  for (const life_span& l : program.lives) {
    const auto bytes = static_cast<double>(program.tensors[l.tensor].bytes);
    changes.emplace_back(l.made, bytes);
    changes.emplace_back(l.last_use, -bytes);
  }
  std::sort(changes.begin(), changes.end());
  double alive = 0;
  double most = -1;
  double when = 0;
  for (const auto& [seconds, bytes] : changes) {
    alive += bytes;
    if (alive <= most) continue;
    most = alive;
    when = seconds;
  }
  return when;
}

}  // namespace

record_problem problem_of(const step_program& program, const budgets& within, double to_host_rate,
                          double to_device_rate) {
  record_problem p;
  name_tensors(program, p);
  p.asked.device_budget = within.device;
  p.asked.host_budget = within.host;
  p.asked.to_host = to_host_rate;
  p.asked.to_device = to_device_rate;
  p.asked.makings =
      makings_of(program, p, [&](std::size_t d) { return static_cast<double>(program.definitions[d].runs); });
  permit(program, p);

  const double peak = peak_of(program);
  const auto at_peak = [&](const life_span& l) { return l.made <= peak && l.last_use >= peak; };
  double first_made = program.seconds;
  double last_use = peak;
  std::vector<std::size_t> alive(p.asked.bytes.size(), 0);
  std::vector<std::size_t> uses(program.tensors.size(), 0);  // of what is alive then
  for (const life_span& l : program.lives) {
    first_made = std::min(first_made, l.made);
    if (!at_peak(l)) continue;
    alive[p.asked.at(p.cell_of[l.tensor])] += program.tensors[l.tensor].bytes;
    last_use = std::max(last_use, l.last_use);
    uses[l.tensor] = l.uses;
  }
  // What is dropped at the peak is made again behind it; so it is in the lives that follow and are used alike.
  std::vector<double> runs_behind(program.definitions.size(), 0);
  for (const life_span& l : program.lives) {
    const auto& made_by = program.tensors[l.tensor].made_by;
    if (!made_by || program.definitions[*made_by].makes.front() != l.tensor) continue;
    if (at_peak(l) || (l.made > peak && l.uses == uses[l.tensor])) runs_behind[*made_by] += 1;
  }
  p.asked.forward_s = peak;
  p.asked.backward_s = program.seconds - peak;
  p.asked.lead_s = std::min(first_made, peak);
  p.asked.tail_s = program.seconds - last_use;
  p.at_peak = p.asked;
  p.at_peak.bytes = alive;
  p.at_peak.makings = makings_of(program, p, [&](std::size_t d) { return runs_behind[d]; });
  std::erase_if(p.at_peak.makings, [&](const making& m) {
    return std::none_of(p.asked.makings.begin(), p.asked.makings.end(),
                        [&](const making& kept) { return kept.makes == m.makes; });
  });
  return p;
}

std::vector<ho::choice> placements_of(const record_problem& p, const mix& m) {
  std::vector<ho::choice> placed;
  placed.reserve(p.cell_of.size());
  for (const cell c : p.cell_of) placed.push_back(m.at(c));
  return placed;
}

}  // namespace planner
