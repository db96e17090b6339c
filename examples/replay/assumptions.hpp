#pragma once
// Every number of a replay that neither the model's description nor the machine (virtual_gpu/machine.cpp) holds, with
// its source; and the few that were fitted to a published row.

#include <string_view>
#include <vector>

namespace replay {

struct assumptions {
  double pool_share = 0.90;
  double all_reduce_256mb = 594e9;
  double all_reduce_1gb = 647e9;
  double all_to_all = 623e9;
  double attention_backward = 2.5;
  double pipelined_layers = 3;
  double look_ahead_buffers = 2;
  double deepseek_exposed = 1;
  double deepseek_fixed_seconds = 3.2635;
  double llama_matrix_share = 0.5203;
  double llama_exposed = 0;
};

/// One of them.
struct constant {
  std::string_view name, unit, source;
  double assumptions::*value;
  std::string_view fitted_on;  // the row; empty: not fitted
};

/// All of them, in the order of their declaration.
[[nodiscard]] const std::vector<constant>& all_constants();

}  // namespace replay
