#pragma once
// A placement for every tensor, and as what a placement table can say: per name, ranges of layers.

#include "problem.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace planner {

/// Layers from `first` up to, not including, `last`.
struct layer_choice {
  std::size_t first = 0, last = 0;
  ho::choice chosen = ho::choice::save;
  friend bool operator==(const layer_choice&, const layer_choice&) = default;
};

class mix {
public:
  mix() = default;
  mix(std::size_t names, std::size_t layers, ho::choice chosen) : layers_(layers), choices_(names * layers, chosen) {}

  [[nodiscard]] std::size_t names() const noexcept { return layers_ == 0 ? 0 : choices_.size() / layers_; }
  [[nodiscard]] std::size_t layers() const noexcept { return layers_; }
  [[nodiscard]] ho::choice at(cell c) const { return choices_.at(c.name * layers_ + c.layer); }
  void set(cell c, ho::choice chosen) { choices_.at(c.name * layers_ + c.layer) = chosen; }
  void set(std::size_t name, const layer_choice& range);

  /// Of one name, in order; neighbours differ.
  [[nodiscard]] std::vector<layer_choice> ranges(std::size_t name) const;

  /// Of all tensors, name by name.
  [[nodiscard]] const std::vector<ho::choice>& choices() const noexcept { return choices_; }

  friend bool operator==(const mix&, const mix&) = default;

private:
  std::size_t layers_ = 0;
  std::vector<ho::choice> choices_;
};

/// The same for the planner's tensors: where a layer lacks a tensor its choice says nothing, so it takes that of its
/// neighbours, and the ranges are the fewest.
[[nodiscard]] mix tidied(const problem& p, const mix& m);

/// "gate: offload 0-56, save 57-60": one name's ranges for people, both ends included; "gate: offload" for all layers.
[[nodiscard]] std::string describe(const problem& p, const mix& m, std::size_t name);

}  // namespace planner
