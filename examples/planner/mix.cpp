#include "mix.hpp"

namespace planner {

void mix::set(std::size_t name, const layer_choice& range) {
  for (std::size_t layer = range.first; layer < range.last; ++layer) set(cell{name, layer}, range.chosen);
}

std::vector<layer_choice> mix::ranges(std::size_t name) const {
  std::vector<layer_choice> all;
  for (std::size_t layer = 0; layer < layers_; ++layer) {
    const ho::choice chosen = at({name, layer});
    if (all.empty() || all.back().chosen != chosen) {
      all.push_back({layer, layer + 1, chosen});
    } else {
      ++all.back().last;
    }
  }
  return all;
}

mix tidied(const problem& p, const mix& m) {
  mix tidy = m;
  for (std::size_t name = 0; name < p.names.size(); ++name) {
    ho::choice chosen = ho::choice::save;
    for (std::size_t layer = p.layers; layer-- > 0;) {  // of the first that has it
      if (p.bytes_of({name, layer}) > 0) chosen = m.at({name, layer});
    }
    for (std::size_t layer = 0; layer < p.layers; ++layer) {
      if (p.bytes_of({name, layer}) > 0) chosen = m.at({name, layer});
      tidy.set(cell{name, layer}, chosen);
    }
  }
  return tidy;
}

std::string describe(const problem& p, const mix& m, std::size_t name) {
  std::string text = p.names.at(name).text + ": ";
  const std::vector<layer_choice> ranges = m.ranges(name);
  for (const layer_choice& r : ranges) {
    if (&r != &ranges.front()) text += ", ";
    text += ho::to_string(r.chosen);
    if (ranges.size() == 1) continue;
    text += ' ' + std::to_string(r.first);
    if (r.last > r.first + 1) text += '-' + std::to_string(r.last - 1);
  }
  return text;
}

}  // namespace planner
