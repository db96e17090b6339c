#pragma once
// One of a layer's tensors. Its placement is chosen at run time; or, in a program that is compiled with
// HOSTOFFLOAD_REPLAY_PLACEMENT, the header that replay --plan --header wrote, by that header's table.

#include "arithmetic.hpp"
#include "run.hpp"

#include <hostoffload/hostoffload.hpp>

#ifdef HOSTOFFLOAD_REPLAY_PLACEMENT
#include HOSTOFFLOAD_REPLAY_PLACEMENT
#endif

#include <cstddef>
#include <optional>

namespace replay {

#ifdef HOSTOFFLOAD_REPLAY_PLACEMENT
template <tensor Name>
using policy = typename planned_placement<tensor>::template of<Name>;
#else
template <tensor Name>
using policy = ho::any_placement<Name>;
#endif

/// Not every layer has it.
template <tensor Name>
class placed_tensor {
public:
  using type = ho::offload_tensor<std::byte, policy<Name>>;

  placed_tensor(ho::prefetch_scheduler& scheduler, const run_options& o, ho::layer_position at)
      : bytes_(tensor_bytes(o.of.what, at.index, Name, o.of.how.tokens())) {
    if (bytes_ == 0) return;
    if constexpr (ho::placement_policy<policy<Name>>) {
      tensor_.emplace(scheduler, bytes_, at);
    } else {
      tensor_.emplace(scheduler, bytes_, at, placed_at(o, Name, at.index));
    }
  }
  [[nodiscard]] type& operator*() { return *tensor_; }
  [[nodiscard]] type* operator->() { return &*tensor_; }
  [[nodiscard]] bool is(ho::choice placed) const { return tensor_ && tensor_->placed() == placed; }

private:
  std::size_t bytes_;
  std::optional<type> tensor_;
};

}  // namespace replay
