#pragma once
// The mixes whose headers lie in headers/.

#include <planner/mix.hpp>
#include <planner/problem.hpp>

#include <string>
#include <vector>

namespace mixes {

namespace ho = hostoffload;

struct written {
  std::string name;
  planner::problem of;
  planner::mix placed;
  std::vector<std::string> notes;
};

/// Tensors q, gate and up in so many layers.
inline planner::problem three_names(std::size_t layers) {
  planner::problem p;
  p.layers = layers;
  p.names = {{"q", {}}, {"gate", {}}, {"up", {}}};
  p.bytes.assign(3 * layers, 1);
  return p;
}

inline std::vector<written> all() {
  using enum ho::choice;
  std::vector<written> some;
  some.push_back({"alike", three_names(4), planner::mix(3, 4, offload), {}});

  some.push_back({"both_ends", three_names(61), planner::mix(3, 61, remat), {"61 layers", "of one model"}});
  planner::mix& both = some.back().placed;
  both.set(0, {0, 61, offload});
  both.set(1, {0, 3, save});
  both.set(1, {57, 61, save});
  both.set(2, {0, 3, offload});
  both.set(2, {60, 61, save});

  some.push_back({"each_layer", three_names(5), planner::mix(3, 5, save), {"every layer of gate differs"}});
  planner::mix& each = some.back().placed;
  each.set(0, {2, 3, offload});
  each.set(1, {1, 2, offload});
  each.set(1, {2, 3, remat});
  each.set(1, {3, 4, offload});
  each.set(2, {0, 4, offload});

  some.push_back({"two_layers", three_names(2), planner::mix(3, 2, remat), {}});
  some.back().placed.set(0, {1, 2, save});
  some.back().placed.set(2, {0, 1, offload});

  some.push_back({"one_layer", three_names(1), planner::mix(3, 1, save), {}});
  return some;
}

}  // namespace mixes
