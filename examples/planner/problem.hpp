#pragma once
// What a planner is asked: which tensors a step has, what keeping, moving or making each of them again costs, and how
// much memory there is. It knows no model and no scheduler.

#include <hostoffload/placement.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace planner {

namespace ho = hostoffload;

struct permitted_choices {
  bool save = true, offload = true, remat = true;

  [[nodiscard]] bool has(ho::choice c) const noexcept {
    return c == ho::choice::save ? save : (c == ho::choice::offload ? offload : c == ho::choice::remat && remat);
  }
};

struct tensor_name {
  std::string text;  ///< the enumerator, as the trainer spells it
  permitted_choices may;
};

/// One tensor: its name, by its place in problem::names, and its layer.
struct cell {
  std::size_t name = 0, layer = 0;
  friend bool operator==(const cell&, const cell&) = default;
};

/// A define function, in the order of the forward pass within its layer. It runs again in the backward pass where one
/// of the tensors that it makes is remat.
struct making {
  std::vector<cell> makes;
  double seconds = 0;  ///< of the compute stream, without what the tensors that it awaits cost where they are remat too
};

/// One step at one batch size, looked at in a moment in which all tensors are alive: between forward and backward pass;
/// or, where `leased` is not 0, in the backward pass of the last layer, all but whose own tensors are alive then.
/// Seconds are those of the compute stream when nothing else runs and nothing is waited for: where they are no larger
/// than in any real step, bound_step() is a lower bound.
struct problem {
  double work = 1;  ///< what a step gets done, in any unit; among several batches the most work per second is the best

  std::size_t layers = 0;
  std::vector<tensor_name> names;
  std::vector<std::size_t> bytes;  ///< of each tensor, see at(); 0: the layer has no such tensor
  std::vector<making> makings;     ///< of every tensor that may be remat, each in one of them

  double forward_s = 0;   ///< until that moment, with waits if every mix has them, ...
  double backward_s = 0;  ///< ... and from then on, with nothing made again
  double lead_s = 0;      ///< of forward_s: before the first tensor is there
  double tail_s = 0;      ///< of backward_s: behind the last use of a tensor

  double to_host = 0, to_device = 0;  ///< bytes per second of the link, each direction alone

  std::size_t device_budget = 0, host_budget = 0;  ///< bytes
  std::size_t device_beside = 0;  ///< of device_budget: bytes that are in use whatever the placement, ...
  std::size_t leased = 0;  ///< ... and of the last layer's tensors those of which a kernel has leases in that moment

  [[nodiscard]] std::size_t at(cell c) const noexcept { return c.name * layers + c.layer; }
  [[nodiscard]] std::size_t bytes_of(cell c) const { return bytes.at(at(c)); }
  /// Whether it is alive in that moment, but for what is leased.
  [[nodiscard]] bool alive(cell c) const noexcept { return leased == 0 || c.layer + 1 < layers; }
  /// What the alive ones have on the device; negative: nothing does.
  [[nodiscard]] double device_left() const noexcept {
    return static_cast<double>(device_budget) - static_cast<double>(device_beside) - static_cast<double>(leased);
  }
};

/// Throws std::invalid_argument, one line, where sizes do not match, a tensor that may be remat is made by no
/// definition or by two, a name permits nothing, or a rate or time is no number.
void check(const problem& p);

}  // namespace planner
