#include "checkpoint.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <string_view>

namespace llama {
namespace {

struct convention {
  std::string_view here, there;
  std::string_view options;  // that set the shape
};

constexpr std::array<convention, 9> of_a_layer{{{"attention_norm", "input_layernorm", "--hidden"},
                                                {"q", "self_attn.q_proj", "--hidden"},
                                                {"k", "self_attn.k_proj", "--hidden, --heads and --kv-heads"},
                                                {"v", "self_attn.v_proj", "--hidden, --heads and --kv-heads"},
                                                {"out", "self_attn.o_proj", "--hidden"},
                                                {"ffn_norm", "post_attention_layernorm", "--hidden"},
                                                {"gate", "mlp.gate_proj", "--ffn and --hidden"},
                                                {"up", "mlp.up_proj", "--ffn and --hidden"},
                                                {"down", "mlp.down_proj", "--hidden and --ffn"}}};

constexpr std::array<convention, 3> of_the_model{{{"embedding", "model.embed_tokens", "--vocabulary and --hidden"},
                                                  {"norm", "model.norm", "--hidden"},
                                                  {"head", "lm_head", "--vocabulary and --hidden"}}};

constexpr std::string_view layers = "layers.";

const convention& convention_of(const parameter& p) {
  const std::string_view all = p.name;
  const bool in_layer = all.starts_with(layers);
  const std::string_view last = in_layer ? all.substr(all.rfind('.') + 1) : all;
  const std::span<const convention> list = in_layer ? std::span<const convention>(of_a_layer) : of_the_model;
  const auto at = std::find_if(list.begin(), list.end(), [&](const convention& c) { return c.here == last; });
  if (at == list.end()) throw std::logic_error("Hugging Face has no name for " + p.name);
  return *at;
}

std::vector<examples::checkpoint_format::config_entry> config_of(const sizes& m) {
  return {{"model_type", "llama"},
          {"hidden_size", m.hidden, "--hidden"},
          {"num_hidden_layers", m.layers, "--layers"},
          {"num_attention_heads", m.heads, "--heads"},
          {"num_key_value_heads", m.kv_heads, "--kv-heads"},
          {"head_dim", m.head_size(), "--heads"},
          {"intermediate_size", m.ffn, "--ffn"},
          {"vocab_size", m.vocabulary, "--vocabulary"},
          {"tie_word_embeddings", m.tied},
          {"rms_norm_eps", norm_epsilon},
          {"rope_theta", rope_theta},
          {"rope_scaling", nullptr},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"mlp_bias", false}};
}

}  // namespace

std::string hugging_face_name(const parameter& p) {
  const std::string_view all = p.name;
  std::string there = std::string(convention_of(p).there) + ".weight";
  if (!all.starts_with(layers)) return there;
  return "model." + std::string(all.substr(0, all.rfind('.') + 1)) + there;
}

examples::checkpoint_format format_of(const sizes& model) {
  examples::checkpoint_format format{"a Llama", {}, config_of(model), true};
  for (const parameter& p : list_parameters(model)) {
    format.parameters.push_back({p, hugging_face_name(p), std::string(convention_of(p).options)});
  }
  return format;
}

std::vector<double> load_checkpoint(const std::string& path, const sizes& model) {
  check(model);
  return examples::load_checkpoint(path, format_of(model));
}

std::string checkpoint(const sizes& model, const std::vector<double>& values, bool as_bf16) {
  return examples::checkpoint(format_of(model), values, as_bf16);
}

}  // namespace llama
