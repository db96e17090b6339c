#pragma once
// The published rows, and our own beside them.

#include "run.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

/// What was measured. NVIDIA, July 2026: MaxText on GB200 NVL72, 128 GPUs. A throughput of 0: out of memory.
struct published {
  double tflops_per_device = 0;
  double gpu_peak_gib = 0;
  double host_gib = 0;
};

enum class basis { predicted, fitted };

struct row {
  std::string name;
  std::string placement;  // for people
  std::string schedule;
  run_options options;
  std::optional<published> measured;
  basis throughput = basis::predicted;  // memory always is
  std::string reason;                   // why the model misses it, where it does
  outcome simulated{};
};

/// DS1 to DS5, LL1 to LL4, and ours; not stepped yet. `deepseek` and `llama` come from the description files. Ours have
/// the same placement and collectives as DS1 and LL2, and windows of 1, 2 and 3 layers.
[[nodiscard]] std::vector<row> make_rows(const description& deepseek, const description& llama,
                                         const assumptions& with);

/// Steps the row on a GB200.
void replay_row(row& r);

/// The largest micro batch, from that of `o` up to 4096 at most, that fits where all smaller ones do; with its outcome.
/// Nothing if that of `o` does not fit.
struct largest_batch {
  std::size_t micro_batch = 0;
  outcome simulated;
};
[[nodiscard]] std::optional<largest_batch> find_largest_batch(const vgpu::machine& machine, run_options o);

/// Ours with the largest micro batch that fits, DeepSeek's tensors and a window of three layers; stepped.
[[nodiscard]] row ours_largest(const description& deepseek, const assumptions& with);

}  // namespace replay
