#include "arithmetic.hpp"

namespace replay {
namespace {

double real(std::size_t n) { return static_cast<double>(n); }

std::size_t query_width(const model& m) {
  return m.latent ? m.latent->heads * (m.latent->nope_size + m.latent->rope_size)
                  : m.grouped->heads * m.grouped->head_size;
}
std::size_t key_width(const model& m) { return m.latent ? query_width(m) : m.grouped->kv_heads * m.grouped->head_size; }
std::size_t value_width(const model& m) {
  return m.latent ? m.latent->heads * m.latent->value_size : m.grouped->kv_heads * m.grouped->head_size;
}
std::size_t context_width(const model& m) { return m.latent ? m.latent->heads * m.latent->value_size : query_width(m); }

/// Multiply-adds per token in the attention block's products, that is their weights.
double attention_weights(const model& m) {
  const double e = real(m.hidden);
  const double out = real(context_width(m)) * e;
  if (!m.latent) return e * real(query_width(m) + key_width(m) + value_width(m)) + out;
  const latent_attention& a = *m.latent;
  return e * real(a.q_rank + a.kv_rank + a.rope_size) + real(a.q_rank) * real(query_width(m)) +
         real(a.kv_rank) * real(a.heads * (a.nope_size + a.value_size)) + out;
}

std::size_t ffn_rows_width(const model& m, std::size_t layer) {
  return m.has_experts(layer) ? (m.moe->top_k + m.moe->shared) * m.moe->width : m.ffn;
}

}  // namespace

parameter_counts count_parameters(const model& m) {
  const double e = real(m.hidden);
  parameter_counts n;
  n.vocabulary = real(m.vocabulary) * e * (m.tied ? 1 : 2);
  n.attention = attention_weights(m) + 2 * e;
  if (m.latent) n.attention += real(m.latent->q_rank + m.latent->kv_rank);
  if (m.grouped && m.grouped->head_norms) n.attention += 2 * real(m.grouped->head_size);
  n.dense = 3 * e * real(m.ffn);
  double dense_layers = real(m.layers);
  double moe_layers = 0;
  double routed_all = 0;
  double routed_active = 0;
  if (m.moe) {
    n.expert = 3 * e * real(m.moe->width);
    n.shared = n.expert * real(m.moe->shared);
    n.router = (e + (m.moe->bias ? 1 : 0)) * real(m.moe->count);
    dense_layers = real(m.moe->dense_layers);
    moe_layers = real(m.layers) - dense_layers;
    routed_all = n.expert * real(m.moe->count);
    routed_active = n.expert * real(m.moe->top_k);
  }
  const double common =
      n.vocabulary + e + real(m.layers) * n.attention + dense_layers * n.dense + moe_layers * (n.shared + n.router);
  n.total = common + moe_layers * routed_all;
  n.active = common + moe_layers * routed_active;
  return n;
}

double layer_parameters(const model& m, std::size_t layer, std::size_t expert_parallel) {
  const parameter_counts n = count_parameters(m);
  if (!m.has_experts(layer)) return n.attention + n.dense;
  return n.attention + n.shared + n.router + n.expert * real(m.moe->count / expert_parallel);
}

counted_flops step_flops(const model& m, std::size_t tokens, std::size_t sequence) {
  const double t = real(tokens);
  const double e = real(m.hidden);
  counted_flops f;
  const double widths = real(query_width(m) + context_width(m));
  f.attention = 3 * real(m.layers) * 2 * t * real(sequence) * widths / 2;
  double forward = real(m.layers) * 2 * t * attention_weights(m) + 2 * t * e * real(m.vocabulary);
  for (std::size_t i = 0; i < m.layers; ++i) {
    forward += 6 * t * e * real(ffn_rows_width(m, i));
    if (m.has_experts(i)) forward += 2 * t * e * real(m.moe->count);
  }
  f.total = 3 * forward + f.attention;
  return f;
}

std::size_t tensor_bytes(const model& m, std::size_t layer, tensor t, std::size_t tokens) {
  constexpr std::size_t bf16 = 2;
  constexpr std::size_t fp32 = 4;
  const bool routes = m.has_experts(layer);
  switch (t) {
    case tensor::input:
    case tensor::attention_out:
      return bf16 * tokens * m.hidden;
    case tensor::q_a:
      return m.latent ? bf16 * tokens * m.latent->q_rank : 0;
    case tensor::kv_a:
      return m.latent ? bf16 * tokens * (m.latent->kv_rank + m.latent->rope_size) : 0;
    case tensor::q:
      return bf16 * tokens * query_width(m);
    case tensor::k:
      return bf16 * tokens * key_width(m);
    case tensor::v:
      return bf16 * tokens * value_width(m);
    case tensor::attention:
      return bf16 * tokens * context_width(m);
    case tensor::lse:
      return fp32 * tokens * (m.latent ? m.latent->heads : m.grouped->heads);
    case tensor::router:
      return routes ? 2 * fp32 * tokens * m.moe->top_k : 0;
    case tensor::routed:
      return routes ? bf16 * tokens * m.moe->top_k * m.hidden : 0;
    case tensor::gate:
    case tensor::up:
    case tensor::act:
      return bf16 * tokens * ffn_rows_width(m, layer);
  }
  return 0;
}

std::size_t layer_bytes(const model& m, std::size_t layer, const tensor_set& set, std::size_t tokens) {
  std::size_t sum = 0;
  for (const tensor t : all_tensors) sum += set.has(t) ? tensor_bytes(m, layer, t, tokens) : 0;
  return sum;
}

std::size_t model_bytes(const model& m, const tensor_set& set, std::size_t tokens) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < m.layers; ++i) sum += layer_bytes(m, i, set, tokens);
  return sum;
}

double element_bytes(ho::precision p) {
  switch (p) {
    case ho::precision::fp64:
      return 8;
    case ho::precision::fp32:
    case ho::precision::tf32:
      return 4;
    case ho::precision::bf16:
      return 2;
    case ho::precision::fp8:
      return 1 + 1.0 / 32;
    case ho::precision::fp4:
      return 0.5 + 1.0 / 16;
  }
  return 0;
}

volumes step_volumes(const model& m, const layout& how) {
  const parameter_counts n = count_parameters(m);
  const auto others = [](std::size_t ranks) { return real(ranks - 1) / real(ranks); };
  double expert_layers = 0;
  double experts_here = 0;
  volumes v;
  if (m.moe) {
    expert_layers = real(m.layers - m.moe->dense_layers);
    experts_here = expert_layers * n.expert * real(m.moe->count / how.expert_parallel);
    v.all_to_all =
        expert_layers * real(tensor_bytes(m, m.layers - 1, tensor::routed, how.tokens())) * others(how.expert_parallel);
  }
  const double all_experts = m.moe ? expert_layers * n.expert * real(m.moe->count) : 0;
  const double received = (n.total - all_experts) * others(how.devices()) + experts_here * others(how.fsdp);
  v.gather = received * element_bytes(how.gathered);
  v.scatter = received * element_bytes(ho::precision::bf16);
  return v;
}

}  // namespace replay
