#include "moves.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace planner {
namespace {

constexpr std::array all_choices{ho::choice::save, ho::choice::offload, ho::choice::remat};

std::vector<cell> all_tensors(const problem& p) {
  std::vector<cell> all;
  for (std::size_t name = 0; name < p.names.size(); ++name) {
    for (std::size_t layer = 0; layer < p.layers; ++layer) {
      if (p.bytes_of({name, layer}) > 0) all.push_back({name, layer});
    }
  }
  return all;
}

std::vector<ho::choice> permitted(const permitted_choices& may) {
  std::vector<ho::choice> some;
  for (const ho::choice c : all_choices) {
    if (may.has(c)) some.push_back(c);
  }
  return some;
}

}  // namespace

std::vector<std::vector<std::size_t>> units_of(const problem& p) {
  std::vector<std::vector<std::size_t>> units;
  for (std::size_t name = 0; name < p.names.size(); ++name) units.push_back({name});
  std::set<std::vector<std::size_t>> groups;
  for (const making& m : p.makings) {
    std::set<std::size_t> names;
    for (const cell c : m.makes) names.insert(c.name);
    if (names.size() > 1) groups.insert({names.begin(), names.end()});
  }
  units.insert(units.end(), groups.begin(), groups.end());
  return units;
}

void for_neighbours(const problem& p, const std::vector<std::vector<std::size_t>>& units, const mix& m,
                    const std::function<bool(const mix&)>& visit) {
  for (const std::vector<std::size_t>& unit : units) {
    std::set<std::size_t> bounds;  // where one of the names changes its choice
    for (const std::size_t name : unit) {
      for (const layer_choice& r : m.ranges(name)) bounds.insert({r.first, r.last});
    }
    for (auto first = bounds.begin(); std::next(first) != bounds.end(); ++first) {
      const std::size_t size = *std::next(first) - *first;
      std::vector<std::pair<std::size_t, std::size_t>> parts{{*first, *first + size}};
      for (std::size_t some = 1; some < size; some *= 2) {
        parts.emplace_back(*first, *first + some);
        parts.emplace_back(*first + size - some, *first + size);
      }
      for (const ho::choice chosen : all_choices) {
        for (const auto& [from, to] : parts) {
          mix next = m;
          for (const std::size_t name : unit) {
            if (p.names[name].may.has(chosen)) next.set(name, {from, to, chosen});
          }
          if (next != m && visit(next)) return;
        }
      }
    }
  }
}

mix uniform(const problem& p, ho::choice chosen) {
  mix m(p.names.size(), p.layers, chosen);
  for (std::size_t name = 0; name < p.names.size(); ++name) {
    if (p.names[name].may.has(chosen)) continue;
    m.set(name, {0, p.layers, permitted(p.names[name].may).front()});
  }
  return m;
}

mix at_prices(const problem& p, const relaxation& prices) {
  const bool host_is_cheaper = prices.host_price < prices.device_price;
  const double price = std::min(prices.host_price, prices.device_price);
  mix m = uniform(p, host_is_cheaper ? ho::choice::offload : ho::choice::save);
  for (const making& made : p.makings) {
    double keeping = 0;
    for (const cell c : made.makes) {
      const permitted_choices& may = p.names[c.name].may;
      if (may.remat) keeping += static_cast<double>(p.bytes_of(c)) * (may.offload ? price : prices.device_price);
    }
    if (made.seconds >= keeping) continue;
    for (const cell c : made.makes) {
      if (p.names[c.name].may.remat) m.set(c, ho::choice::remat);
    }
  }
  return m;
}

std::size_t count_mixes(const problem& p, std::size_t most) {
  std::size_t count = 1;
  for (const cell c : all_tensors(p)) {
    count *= permitted(p.names[c.name].may).size();
    if (count > most) return most + 1;
  }
  return count;
}

void for_all_mixes(const problem& p, const std::function<void(const mix&)>& visit) {
  const std::vector<cell> tensors = all_tensors(p);
  std::vector<std::vector<ho::choice>> may;
  for (const cell c : tensors) may.push_back(permitted(p.names[c.name].may));
  std::vector<std::size_t> digits(tensors.size(), 0);
  mix m = uniform(p, ho::choice::save);
  for (std::size_t i = 0; i < tensors.size(); ++i) m.set(tensors[i], may[i].front());
  for (;;) {
    visit(m);
    std::size_t i = 0;
    for (; i < tensors.size(); ++i) {
      digits[i] = (digits[i] + 1) % may[i].size();
      m.set(tensors[i], may[i][digits[i]]);
      if (digits[i] != 0) break;
    }
    if (i == tensors.size()) return;
  }
}

}  // namespace planner
