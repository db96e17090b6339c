#include "assumptions.hpp"

namespace replay {

const std::vector<constant>& all_constants() {
  constexpr auto nccl = "NCCL on GB200, all-reduce bus bandwidth (m); with the other size it gives latency and rate";
  static const std::vector<constant> all{
      {"pool_share",
       "of the device's memory",
       "a framework's pool is 0.88 to 0.90 of it: 165.9 GiB on GB200 (m)",
       &assumptions::pool_share,
       {}},
      {"all_reduce_256mb", "B/s", nccl, &assumptions::all_reduce_256mb, {}},
      {"all_reduce_1gb", "B/s", nccl, &assumptions::all_reduce_1gb, {}},
      {"all_to_all", "B/s", "NCCL on GB200, all-to-all in one rack (m)", &assumptions::all_to_all, {}},
      {"attention_backward",
       "times the forward pass",
       "five products to two, Dao, arXiv 2307.08691 (FlashAttention-2), section 4.1",
       &assumptions::attention_backward,
       {}},
      {"pipelined_layers",
       "layers",
       "XLA's pipelining is one iteration deep, without a byte bound: a layer under way, one in use, one not freed yet",
       &assumptions::pipelined_layers,
       {}},
      {"look_ahead_buffers",
       "layers",
       "weights of one layer are gathered, and gradients of one summed, while another is worked on",
       &assumptions::look_ahead_buffers,
       {}},
      {"deepseek_exposed",
       "share of the collectives",
       "fixed before running: without look-ahead each collective is waited for where it is issued",
       &assumptions::deepseek_exposed,
       {}},
      {"deepseek_fixed_seconds", "s per step", "fitted: what a step takes beside its layers, at any batch",
       &assumptions::deepseek_fixed_seconds, "DS4"},
      {"llama_matrix_share", "of the machine's FP4 rate", "fitted: what the layers' matrix products reach",
       &assumptions::llama_matrix_share, "LL1"},
      {"llama_exposed", "share of the collectives", "fitted: what is waited for where it is issued without look-ahead",
       &assumptions::llama_exposed, "LL3"},
  };
  return all;
}

}  // namespace replay
