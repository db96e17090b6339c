#pragma once
// A step of a few tensors per layer, through the library on the virtual GPU: for searches that can be compared with all
// mixes.

#include <planner/search.hpp>

#include <hostoffload/hostoffload.hpp>
#include <hostoffload/launch.hpp>
#include <hostoffload/virtual_gpu/control.hpp>

#include <cstddef>
#include <memory>
#include <random>
#include <vector>

namespace small {

namespace ho = hostoffload;
namespace vgpu = hostoffload::virtual_gpu;

/// In each layer every name is made from the one before, the first from the last one of the layer below. `grouped`: the
/// first two are made together. The backward pass uses each once, in the reverse order.
struct model {
  std::size_t layers = 0;
  std::vector<planner::permitted_choices> may;  // of each name
  bool grouped = false;
  std::vector<std::size_t> bytes;     // name by name
  std::vector<double> make_s, use_s;  // the same: a grouped tensor's is its part of the definition's
  double head_s = 0;                  // between forward and backward
  std::size_t device_budget = 0, host_budget = 0;

  [[nodiscard]] std::size_t at(std::size_t name, std::size_t layer) const { return name * layers + layer; }
};

/// 2 to 4 layers of 2 or 3 names, at most `most` mixes, budgets that force some choices.
[[nodiscard]] model random_model(std::mt19937_64& random, std::size_t most);

[[nodiscard]] planner::problem problem_of(const model& m);

/// The third step on a virtual GB200, in a window of what two neighbouring layers offload.
[[nodiscard]] planner::evaluation step(const model& m, const planner::mix& placed);

}  // namespace small
