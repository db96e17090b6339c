#pragma once
// The shape of the model, and the arithmetic that a step of it counts for.

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace llama {

// Of Llama 3.
inline constexpr double norm_epsilon = 1e-5;
inline constexpr double rope_theta = 500000;

struct sizes {
  std::size_t layers = 8;
  std::size_t hidden = 128;
  std::size_t heads = 4;
  std::size_t kv_heads = 1;
  std::size_t ffn = 448;  // 3.5 x hidden, as in Llama 3.1
  std::size_t sequence = 64;
  std::size_t vocabulary = 256;
  bool tied = false;  // the head uses the embedding's weights

  [[nodiscard]] std::size_t head_size() const { return hidden / heads; }
  [[nodiscard]] std::size_t kv_width() const { return kv_heads * head_size(); }
};

/// Throws std::invalid_argument with one line that says which size is wrong, and why.
inline void check(const sizes& s) {
  const auto need = [](bool good, const std::string& why) {
    if (!good) throw std::invalid_argument(why);
  };
  constexpr std::size_t largest = std::size_t{1} << 20U;
  const std::pair<const char*, std::size_t> each[] = {
      {"layers", s.layers}, {"hidden", s.hidden},     {"heads", s.heads},          {"kv-heads", s.kv_heads},
      {"ffn", s.ffn},       {"sequence", s.sequence}, {"vocabulary", s.vocabulary}};
  for (const auto& [option, size] : each) {
    need(size > 0 && size <= largest, std::string("--") + option + " must be between 1 and " + std::to_string(largest));
  }
  need(s.hidden % s.heads == 0,
       "--hidden " + std::to_string(s.hidden) + " is not a multiple of --heads " + std::to_string(s.heads));
  need(s.head_size() % 2 == 0,
       "the head size " + std::to_string(s.head_size()) + " (--hidden / --heads) is odd: rotary positions need pairs");
  need(s.head_size() <= 256,
       "the head size " + std::to_string(s.head_size()) + " (--hidden / --heads) exceeds 256: use more heads");
  need(s.heads % s.kv_heads == 0,
       "--heads " + std::to_string(s.heads) + " is not a multiple of --kv-heads " + std::to_string(s.kv_heads));
}

/// Floating point operations that a training step over `tokens` tokens counts for, by MaxText's rule: three times the
/// forward pass, causal attention halved, the embedding lookup and any recomputation not counted.
inline double step_flops(const sizes& s, std::size_t tokens) {
  const auto real = [](std::size_t n) { return static_cast<double>(n); };
  const double t = real(tokens);
  const double width = real(s.heads * s.head_size());
  const double projections = 2 * t * real(s.hidden) * (width + 2 * real(s.kv_width())) + 2 * t * real(s.hidden) * width;
  const double attention = 4 * t * real(s.sequence) * width / 2;
  const double feed_forward = 6 * t * real(s.hidden) * real(s.ffn);
  return 3 * (real(s.layers) * (projections + attention + feed_forward) + 2 * t * real(s.hidden) * real(s.vocabulary));
}

}  // namespace llama
