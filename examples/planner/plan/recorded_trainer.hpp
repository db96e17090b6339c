#pragma once
// A trainer that does what a recorded step did: the same tensors, definitions, leases and seconds of work, under any
// placement. It computes nothing, and is for the virtual GPU in dry mode.

#include "step_program.hpp"

#include <hostoffload/hostoffload.hpp>

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace planner {

class recorded_trainer {
public:
  /// `placed`: per tensor of the program, which outlives this. Throws what building tensors throws.
  recorded_trainer(const step_program& program, const std::vector<ho::choice>& placed,
                   ho::prefetch_scheduler& scheduler);

  /// For scheduler.run().
  ho::task<> step();

private:
  enum class name { tensor };
  using tensor = ho::offload_tensor<std::byte, ho::any_placement<name::tensor>>;
  using lease = ho::lease<const std::byte>;

  ho::task<> make(const definition& d);
  void work(double seconds) const;

  const step_program& program_;
  ho::prefetch_scheduler& scheduler_;
  std::vector<std::unique_ptr<tensor>> tensors_;
};

}  // namespace planner
