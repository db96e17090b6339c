#include "checkpoint.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

namespace moe {
namespace {

struct convention {
  std::string_view here, there;  // behind the layer's name
  std::string_view options;      // that set the shape
};

constexpr std::array<convention, 14> of_a_layer{
    {{"attention_norm", "input_layernorm.weight", "--hidden"},
     {"q_a", "self_attn.q_a_proj.weight", "--q-rank and --hidden"},
     {"q_norm", "self_attn.q_a_layernorm.weight", "--q-rank"},
     {"q_b", "self_attn.q_b_proj.weight", "--heads, --nope-size, --rope-size and --q-rank"},
     {"kv_a", "self_attn.kv_a_proj_with_mqa.weight", "--kv-rank, --rope-size and --hidden"},
     {"kv_norm", "self_attn.kv_a_layernorm.weight", "--kv-rank"},
     {"kv_b", "self_attn.kv_b_proj.weight", "--heads, --nope-size, --value-size and --kv-rank"},
     {"out", "self_attn.o_proj.weight", "--hidden, --heads and --value-size"},
     {"ffn_norm", "post_attention_layernorm.weight", "--hidden"},
     {"router", "mlp.gate.weight", "--experts and --hidden"},
     {"bias", "mlp.gate.e_score_correction_bias", "--experts"},
     {"gate", "mlp.gate_proj.weight", "--dense-ffn and --hidden"},
     {"up", "mlp.up_proj.weight", "--dense-ffn and --hidden"},
     {"down", "mlp.down_proj.weight", "--hidden and --dense-ffn"}}};

constexpr std::array<convention, 3> of_the_model{
    {{"embedding", "model.embed_tokens.weight", "--vocabulary and --hidden"},
     {"norm", "model.norm.weight", "--hidden"},
     {"head", "lm_head.weight", "--vocabulary and --hidden"}}};

struct hugging_face {
  std::string name, options;
};

hugging_face of(const examples::parameter& p) {
  const auto find = [&](const auto& list, std::string_view here) {
    const auto* const at = std::find_if(list.begin(), list.end(), [&](const convention& c) { return c.here == here; });
    if (at == list.end()) throw std::logic_error("Hugging Face has no name for " + p.name);
    return *at;
  };
  const std::string_view all = p.name;
  if (!all.starts_with("layers.")) {
    const convention c = find(of_the_model, all);
    return {std::string(c.there), std::string(c.options)};
  }
  const std::size_t layer = all.find('.', 7) + 1;
  const std::string prefix = "model." + std::string(all.substr(0, layer));
  const std::string_view rest = all.substr(layer);
  if (!rest.starts_with("shared.") && !rest.starts_with("experts.")) {
    const convention c = find(of_a_layer, rest);
    return {prefix + std::string(c.there), std::string(c.options)};
  }
  const bool shared = rest.starts_with("shared.");
  const std::size_t block = rest.rfind('.') + 1;
  const std::string inside = shared ? "shared_experts." : std::string(rest.substr(0, block));
  return {prefix + "mlp." + inside + std::string(rest.substr(block)) + "_proj.weight",
          shared ? "--shared-experts, --expert-ffn and --hidden" : "--expert-ffn and --hidden"};
}

}  // namespace

std::string hugging_face_name(const examples::parameter& p) { return of(p).name; }

examples::checkpoint_format format_of(const sizes& m) {
  examples::checkpoint_format format{"a DeepSeek-V3",
                                     {},
                                     {{"model_type", "deepseek_v3"},
                                      {"hidden_size", m.hidden, "--hidden"},
                                      {"num_hidden_layers", m.layers, "--layers"},
                                      {"first_k_dense_replace", m.dense_layers, "--dense-layers"},
                                      {"num_attention_heads", m.heads, "--heads"},
                                      {"num_key_value_heads", m.heads, "--heads"},
                                      {"q_lora_rank", m.q_rank, "--q-rank"},
                                      {"kv_lora_rank", m.kv_rank, "--kv-rank"},
                                      {"qk_rope_head_dim", m.rope, "--rope-size"},
                                      {"qk_nope_head_dim", m.nope, "--nope-size"},
                                      {"v_head_dim", m.value, "--value-size"},
                                      {"intermediate_size", m.dense_ffn, "--dense-ffn"},
                                      {"moe_intermediate_size", m.expert_ffn, "--expert-ffn"},
                                      {"n_routed_experts", m.experts, "--experts"},
                                      {"n_shared_experts", m.shared, "--shared-experts"},
                                      {"num_experts_per_tok", m.top_k, "--top-k"},
                                      {"n_group", m.groups, "--groups"},
                                      {"topk_group", m.top_groups, "--top-groups"},
                                      {"routed_scaling_factor", m.routed_scale, "--routed-scale"},
                                      {"vocab_size", m.vocabulary, "--vocabulary"},
                                      {"norm_topk_prob", true},
                                      {"tie_word_embeddings", false},
                                      {"rms_norm_eps", norm_epsilon},
                                      {"rope_theta", rope_theta},
                                      {"rope_scaling", nullptr},
                                      {"rope_interleave", true},
                                      {"hidden_act", "silu"},
                                      {"attention_bias", false}},
                                     false};
  for (const examples::parameter& p : list_parameters(m)) {
    const hugging_face there = of(p);
    format.parameters.push_back({p, there.name, there.options});
  }
  return format;
}

}  // namespace moe
