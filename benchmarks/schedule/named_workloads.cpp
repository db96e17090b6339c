// The named workloads. Sizes and shapes of models: arXiv 2407.21783 (Llama 3.1), arXiv 2412.19437 (DeepSeek-V3), arXiv
// 2505.09388 and the model's config.json (Qwen3-30B-A3B); FLOP by MaxText's rule, causal attention halved. Step times:
// NVIDIA's runs of July 2026 with MaxText on GB200 NVL72. Link rates: nvbandwidth, logs and guides of Azure and OCI,
// and NVIDIA/Megatron-LM issue 6491. (m) measured, (s) specification, (u) unverified. A backward piece does twice the
// FLOP of its forward piece.

#include "step_builder.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace schedules {
namespace {

constexpr double giga = 1e9;
constexpr double tera = 1e12;
constexpr double bf16 = 2;  // bytes

constexpr link_rates gb200_link{193 * giga, 201 * giga, 165 * giga};
constexpr auto gb200_rates = "GB200 link: 193 GB/s out, 201 in, 165 each way at once, nvbandwidth (m)";

/// A Llama-like decoder with grouped queries and a gated feed-forward of `active` experts of width `ffn`.
struct decoder {
  double layers, hidden, heads, kv_heads, head, ffn, vocabulary;
  double active = 1, experts = 0;
};
constexpr decoder llama_405b{126, 16384, 128, 8, 128, 53248, 128256};
constexpr decoder llama_8b{32, 4096, 32, 8, 128, 14336, 128256};
constexpr decoder qwen3_30b_a3b{48, 2048, 32, 4, 128, 768, 151936, 8, 128};

enum class recompute : std::uint8_t { nothing, gate_and_up, all_but_qkv };

struct forward_flop {
  double qkv, attention, out, gate_up, down;
};

forward_flop flop_of(const decoder& d, double tokens, double sequence) {
  const double width = d.heads * d.head;
  const double ffn = d.active * d.ffn;
  return {2 * tokens * d.hidden * (width + 2 * d.kv_heads * d.head), 4 * tokens * sequence * width / 2,
          2 * tokens * d.hidden * width, 4 * tokens * d.hidden * ffn + 2 * tokens * d.hidden * d.experts,
          2 * tokens * d.hidden * ffn};
}

/// Forward pieces: 0 projections, 1 attention, 2 output projection, 3 gate and up, 4 activation and down. The backward
/// pass goes the other way, behind what it computes again.
layer_shape decoder_layer(const decoder& d, double tokens, double sequence, recompute again,
                          const std::vector<std::string>& offloaded) {
  const forward_flop f = flop_of(d, tokens, sequence);
  layer_shape layer;
  layer.forward = {f.qkv, f.attention, f.out, f.gate_up, f.down};
  std::vector<std::size_t> recomputed;  // pieces that attend again
  if (again == recompute::all_but_qkv) {
    layer.backward = {f.attention, f.out + f.gate_up};
    recomputed = {0};
  } else if (again == recompute::gate_and_up) {
    layer.backward = {f.gate_up};
  }
  const std::size_t b = layer.backward.size();
  for (const double piece : {f.down, f.gate_up, f.out, f.attention, f.qkv}) layer.backward.push_back(2 * piece);
  const auto behind = [&](const std::vector<std::size_t>& uses) {
    std::vector<std::size_t> all = recomputed;
    for (const std::size_t use : uses) all.push_back(b + use);
    return all;
  };
  const double row = tokens * bf16;
  const double kv = d.kv_heads * d.head;
  const std::array<layer_tensor, 8> known{{
      {"input", row * d.hidden, 0, {}, {b + 4}},
      {"q", row * d.heads * d.head, 0, {1}, behind({3})},
      {"k", row * kv, 0, {1}, behind({3})},
      {"v", row * kv, 0, {1}, behind({3})},
      {"attention", row * d.heads * d.head, 1, {2}, {b + 2, b + 3}},
      {"attention_out", row * d.hidden, 2, {3}, {again == recompute::gate_and_up ? 0 : b + 1}},
      {"gate", row * d.active * d.ffn, 3, {4}, {b}},
      {"up", row * d.active * d.ffn, 3, {4}, {b}},
  }};
  for (const layer_tensor& t : known) {
    if (std::find(offloaded.begin(), offloaded.end(), t.name) != offloaded.end()) layer.tensors.push_back(t);
  }
  return layer;
}

layer_shape head_of(double tokens, double hidden, double vocabulary) {
  const double unembed = 2 * tokens * hidden * vocabulary;
  return {{unembed}, {2 * unembed}, {}};
}

std::vector<layer_shape> repeat(const layer_shape& layer, double count) {
  return std::vector<layer_shape>(static_cast<std::size_t>(count), layer);
}

/// Pieces: 0 down-projections of MLA, 1 up-projections, attention and output, 2 router, gate and up, 3 activation and
/// down. The backward pass computes piece 1 again. Dense layers have the same width: 18432 = 9 x 2048.
workload deepseek_v3() {
  constexpr double tokens = 8 * 4096, sequence = 4096, hidden = 7168, heads = 128, q_lora = 1536, kv_lora = 512;
  constexpr double rope = 64, ffn = 18432, vocabulary = 129280, step_s = 9.04;
  const double a = 2 * tokens * hidden * (q_lora + kv_lora + rope);
  const double attention = 2 * tokens * (q_lora * heads * 192 + kv_lora * heads * 256) +
                           2 * tokens * sequence * heads * (192 + 128) / 2 + 2 * tokens * hidden * heads * 128;
  const double gate_up = 2 * tokens * hidden * (2 * ffn + 256);
  const double down = 2 * tokens * hidden * ffn;
  layer_shape layer;
  layer.forward = {a, attention, gate_up, down};
  layer.backward = {attention, 2 * down, 2 * gate_up, 2 * attention, 2 * a};
  const double row = tokens * bf16;
  layer.tensors = {{"q_a", row * q_lora, 0, {1}, {0, 3}},
                   {"kv_a", row * (kv_lora + rope), 0, {1}, {0, 3}},
                   {"gate", row * ffn, 2, {3}, {1}},
                   {"up", row * ffn, 2, {3}, {1}}};
  std::vector<layer_shape> layers = repeat(layer, 61);
  layers.push_back(head_of(tokens, hidden, vocabulary));
  step_builder step("deepseek-v3", layers, 1);
  step.set_rate((step.forward_work() + step.backward_work()) / step_s);
  step.all_in_turn();
  return step.finish(
      "gb200", gb200_link,
      std::string("micro batch 8 x 4096 tokens, q_a, kv_a, gate and up offloaded; step 9.04 s, run DS1 (m); ") +
          gb200_rates);
}

workload llama_405b_qkv() {
  constexpr double tokens = 2 * 8192, sequence = 8192, step_s = 15.06;
  const decoder& d = llama_405b;
  std::vector<layer_shape> layers =
      repeat(decoder_layer(d, tokens, sequence, recompute::all_but_qkv, {"q", "k", "v"}), d.layers);
  layers.push_back(head_of(tokens, d.hidden, d.vocabulary));
  step_builder step("llama-405b", layers, 1);
  step.set_rate((step.forward_work() + step.backward_work()) / step_s);
  step.all_in_turn();
  return step.finish(
      "gb200", gb200_link,
      std::string("batch 2 x 8192 tokens, q, k, v offloaded, the rest rematerialised; step 15.06 s, run LL2 (m); ") +
          gb200_rates);
}

workload llama_8b_on(std::string name, double batch, double sequence) {
  const decoder& d = llama_8b;
  const double tokens = batch * sequence;
  std::vector<layer_shape> layers = repeat(
      decoder_layer(d, tokens, sequence, recompute::nothing, {"input", "q", "k", "v", "attention", "attention_out"}),
      d.layers);
  layers.push_back(head_of(tokens, d.hidden, d.vocabulary));
  step_builder step(std::move(name), layers, 1);
  step.set_rate(600 * tera);
  step.all_in_turn();
  return step.finish(
      "h200", link_rates{55 * giga, 55 * giga, 53 * giga},
      "16384 tokens; all but gate, up and act offloaded, 4.5 C values a token of the 4.7 C (2k) and 6 C (16k) that "
      "PCIe 5 hides at 600 TFLOP/s (u); H200 link: 55 GB/s each way, 53 at once, nvbandwidth (m)");
}

workload qwen3_on_gh200() {
  const decoder& d = qwen3_30b_a3b;
  constexpr double tokens = 4 * 4096, sequence = 4096;
  std::vector<layer_shape> layers =
      repeat(decoder_layer(d, tokens, sequence, recompute::nothing,
                           {"input", "q", "k", "v", "attention", "attention_out", "gate", "up"}),
             d.layers);
  layers.push_back(head_of(tokens, d.hidden, d.vocabulary));
  step_builder step("qwen3-30b-a3b", layers, 1);
  step.set_rate(400 * tera);
  step.all_in_turn();
  return step.finish(
      "gh200", link_rates{170 * giga, 411 * giga, 160 * giga},
      "4 x 4096 tokens, all but act offloaded, at 400 TFLOP/s, half of the measured dense rate (u); node of 4 "
      "GH200: 170 GB/s out, 411 in, Megatron-LM issue 6491 (m); 160 each way at once, GH200 480 GB (m)");
}

/// Seconds at which the first stage begins each of its passes, from the dependences between all stages.
struct pipeline_pass {
  bool forward = true;
  std::size_t micro_batch = 0;
  double start = 0;
};

std::vector<pipeline_pass> first_stage_of_1f1b(std::size_t stages, std::size_t micro_batches, double forward_s,
                                               double backward_s) {
  std::vector<std::vector<pipeline_pass>> order(stages);
  for (std::size_t s = 0; s < stages; ++s) {
    const std::size_t warm_up = std::min(stages - 1 - s, micro_batches);
    std::size_t f = 0, b = 0;
    while (f < warm_up) order[s].push_back({true, f++});
    while (f < micro_batches) {
      order[s].push_back({true, f++});
      order[s].push_back({false, b++});
    }
    while (b < micro_batches) order[s].push_back({false, b++});
  }
  constexpr double unknown = -1;
  std::vector<std::vector<double>> done_f(stages, std::vector<double>(micro_batches, unknown)), done_b = done_f;
  std::vector<std::size_t> next(stages, 0);
  std::vector<double> free_at(stages, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < stages; ++s) {
      while (next[s] < order[s].size()) {
        pipeline_pass& p = order[s][next[s]];
        double ready = 0;
        if (p.forward) {
          if (s > 0) ready = done_f[s - 1][p.micro_batch];
        } else {
          ready = s + 1 < stages ? done_b[s + 1][p.micro_batch] : done_f[s][p.micro_batch];
        }
        if (ready == unknown) break;
        p.start = std::max(free_at[s], ready);
        free_at[s] = p.start + (p.forward ? forward_s : backward_s);
        (p.forward ? done_f : done_b)[s][p.micro_batch] = free_at[s];
        ++next[s];
        moved = true;
      }
    }
  }
  return order.front();
}

workload llama_405b_1f1b() {
  const decoder& d = llama_405b;
  constexpr double tokens = 8192, sequence = 8192, rate = 2746 * tera;
  constexpr std::size_t stages = 4, micro_batches = 8;
  const std::vector<layer_shape> layers = repeat(decoder_layer(d, tokens, sequence, recompute::gate_and_up,
                                                               {"input", "q", "k", "v", "attention", "attention_out"}),
                                                 32);
  step_builder step("llama-405b-1f1b", layers, micro_batches);
  step.set_rate(rate);
  double now = 0;
  const double forward_s = step.forward_work() / rate, backward_s = step.backward_work() / rate;
  for (const pipeline_pass& p : first_stage_of_1f1b(stages, micro_batches, forward_s, backward_s)) {
    if (p.start > now + 1e-9) {
      step.idle(p.start - now);
      now = p.start;
    }
    if (p.forward) {
      step.forward(p.micro_batch);
    } else {
      step.backward(p.micro_batch);
    }
    now += p.forward ? forward_s : backward_s;
  }
  return step.finish(
      "gb200", link_rates{182 * giga, 168 * giga, 82 * giga},
      "first of 4 stages, 32 layers, 8 micro batches of 8192 tokens; gate and up rematerialised, the rest but act "
      "offloaded; 2746 TFLOP/s, run LL2 (m); both GPUs of a Grace copy: 182 GB/s out, 168 in, 82 each way at "
      "once, per GPU, nvbandwidth (m)");
}

}  // namespace

std::vector<workload> named_workloads() {
  return {
      deepseek_v3(),    llama_405b_qkv(), llama_8b_on("llama-8b-2k", 8, 2048), llama_8b_on("llama-8b-16k", 1, 16384),
      qwen3_on_gh200(), llama_405b_1f1b()};
}

}  // namespace schedules
