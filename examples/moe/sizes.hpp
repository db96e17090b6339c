#pragma once
// The shape of the model, and the arithmetic that a step of it counts for.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace moe {

// Of DeepSeek-V3.
inline constexpr double norm_epsilon = 1e-6;
inline constexpr double rope_theta = 10000;

struct sizes {
  std::size_t layers = 5;
  std::size_t dense_layers = 1;  // the first ones have a plain feed-forward block instead of experts
  std::size_t hidden = 128;
  std::size_t heads = 8;
  std::size_t q_rank = 28;   // width of q_a
  std::size_t kv_rank = 16;  // width of kv_a without its rotary part
  std::size_t rope = 8;      // of a query's and key's head: the part with rotary positions ...
  std::size_t nope = 32;     // ... and the part without
  std::size_t value = 32;    // of a value's head
  std::size_t dense_ffn = 320;
  std::size_t experts = 16;  // routed to
  std::size_t top_k = 4;     // of them, for each token
  std::size_t shared = 1;    // experts that every token goes through
  std::size_t expert_ffn = 64;
  std::size_t groups = 4;      // that the routed experts are divided into
  std::size_t top_groups = 2;  // from which a token's experts are taken
  double routed_scale = 2.5;   // of the routed experts' outputs
  std::size_t sequence = 64;
  std::size_t vocabulary = 256;
  double capacity_factor = 0;   // an expert takes at most this times its even share of the pairs; 0: all that choose it
  bool room_for_routed = true;  // gate, up and act take room for what was routed; false: for what the capacity allows

  [[nodiscard]] std::size_t key() const { return nope + rope; }  // of a query's and key's head
  [[nodiscard]] std::size_t query_width() const { return heads * key(); }
  [[nodiscard]] std::size_t value_width() const { return heads * value; }
  [[nodiscard]] std::size_t kv_a_width() const { return kv_rank + rope; }
  [[nodiscard]] std::size_t kv_b_width() const { return heads * (nope + value); }
  [[nodiscard]] std::size_t shared_ffn() const { return shared * expert_ffn; }
  [[nodiscard]] bool is_dense(std::size_t layer) const { return layer < dense_layers; }

  /// Pairs of token and expert that an expert takes at most of `rows` tokens, and all experts together.
  [[nodiscard]] std::size_t capacity(std::size_t rows) const {
    if (capacity_factor == 0) return rows;
    const double share = capacity_factor * static_cast<double>(rows * top_k) / static_cast<double>(experts);
    return std::min(rows, static_cast<std::size_t>(std::ceil(share)));
  }
  [[nodiscard]] std::size_t most_routed(std::size_t rows) const {
    return std::min(rows * top_k, experts * capacity(rows));
  }

  /// Elements of gate, up and act for `rows` tokens when `routed` pairs of token and expert are computed.
  [[nodiscard]] std::size_t ffn_elements(bool dense, std::size_t rows, std::size_t routed) const {
    return dense ? rows * dense_ffn : rows * shared_ffn() + routed * expert_ffn;
  }
};

/// Throws std::invalid_argument with one line that says which size is wrong, and why.
inline void check(const sizes& s) {
  const auto need = [](bool good, const std::string& why) {
    if (!good) throw std::invalid_argument(why);
  };
  const auto text = [](std::size_t n) { return std::to_string(n); };
  constexpr std::size_t largest = std::size_t{1} << 20U;
  const std::pair<const char*, std::size_t> each[] = {
      {"layers", s.layers},       {"hidden", s.hidden},         {"heads", s.heads},       {"q-rank", s.q_rank},
      {"kv-rank", s.kv_rank},     {"rope-size", s.rope},        {"nope-size", s.nope},    {"value-size", s.value},
      {"dense-ffn", s.dense_ffn}, {"experts", s.experts},       {"top-k", s.top_k},       {"expert-ffn", s.expert_ffn},
      {"groups", s.groups},       {"top-groups", s.top_groups}, {"sequence", s.sequence}, {"vocabulary", s.vocabulary}};
  for (const auto& [option, size] : each) {
    need(size > 0 && size <= largest, std::string("--") + option + " must be between 1 and " + text(largest));
  }
  need(s.dense_layers <= s.layers,
       "--dense-layers " + text(s.dense_layers) + " is more than --layers " + text(s.layers));
  need(s.shared >= 1 && s.shared <= 64, "--shared-experts must be between 1 and 64");
  need(s.rope % 2 == 0, "--rope-size " + text(s.rope) + " is odd: rotary positions need pairs");
  need(s.key() <= 256 && s.value <= 256,
       "the head sizes, --nope-size + --rope-size and --value-size, may not exceed 256");
  need(s.groups <= 64 && s.experts % s.groups == 0, "--experts " + text(s.experts) + " is not a multiple of --groups " +
                                                        text(s.groups) + ", or there are more than 64");
  need(s.experts / s.groups >= 2,
       "--groups " + text(s.groups) + ": a group is rated by its two best experts, so it needs two");
  need(s.top_groups <= s.groups, "--top-groups " + text(s.top_groups) + " is more than --groups " + text(s.groups));
  need(s.top_k <= s.top_groups * (s.experts / s.groups),
       "--top-k " + text(s.top_k) + " is more than the experts of --top-groups " + text(s.top_groups));
  need(s.top_k <= 64, "--top-k may not exceed 64");
  need(s.capacity_factor >= 0 && s.capacity_factor <= static_cast<double>(largest),
       "--capacity must be 0, for no bound, or positive and at most " + text(largest));
  need(s.routed_scale > 0 && std::isfinite(s.routed_scale), "--routed-scale must be positive and finite");
}

/// Floating point operations that a training step over `tokens` tokens counts for, by MaxText's rule: three times the
/// forward pass, causal attention halved, router counted, the embedding lookup and any recomputation not counted.
inline double step_flops(const sizes& s, std::size_t tokens) {
  const auto real = [](std::size_t n) { return static_cast<double>(n); };
  const double t = real(tokens);
  const double hidden = real(s.hidden);
  const double q = 2 * t * (hidden * real(s.q_rank) + real(s.q_rank) * real(s.query_width()));
  const double kv = 2 * t * (hidden * real(s.kv_a_width()) + real(s.kv_rank) * real(s.kv_b_width()));
  const double attention = 2 * t * real(s.sequence) * real(s.heads) * real(s.key() + s.value) / 2;
  const double out = 2 * t * hidden * real(s.value_width());
  const double dense = 6 * t * hidden * real(s.dense_ffn);
  const double sparse = 2 * t * hidden * real(s.experts) + 6 * t * hidden * real(s.expert_ffn * (s.top_k + s.shared));
  return 3 * (real(s.layers) * (q + kv + attention + out) + real(s.dense_layers) * dense +
              real(s.layers - s.dense_layers) * sparse + 2 * t * hidden * real(s.vocabulary));
}

}  // namespace moe
