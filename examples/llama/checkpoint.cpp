#include "checkpoint.hpp"

#include "common/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

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

std::vector<std::uint64_t> shape_of(const parameter& p) {
  return p.kind == examples::parameter_kind::norm ? std::vector<std::uint64_t>{p.inputs}
                                                  : std::vector<std::uint64_t>{p.outputs, p.inputs};
}

/// LlamaConfig's entries that decide what the weights mean.
std::vector<std::pair<std::string, nlohmann::json>> config_of(const sizes& m) {
  return {{"model_type", "llama"},          {"hidden_size", m.hidden},           {"num_hidden_layers", m.layers},
          {"num_attention_heads", m.heads}, {"num_key_value_heads", m.kv_heads}, {"head_dim", m.head_size()},
          {"intermediate_size", m.ffn},     {"vocab_size", m.vocabulary},        {"tie_word_embeddings", m.tied},
          {"rms_norm_eps", norm_epsilon},   {"rope_theta", rope_theta},          {"rope_scaling", nullptr},
          {"hidden_act", "silu"},           {"attention_bias", false},           {"mlp_bias", false}};
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> option_of{{{"hidden_size", "--hidden"},
                                                                                  {"num_hidden_layers", "--layers"},
                                                                                  {"num_attention_heads", "--heads"},
                                                                                  {"num_key_value_heads", "--kv-heads"},
                                                                                  {"head_dim", "--heads"},
                                                                                  {"intermediate_size", "--ffn"},
                                                                                  {"vocab_size", "--vocabulary"}}};

std::string config_text(const sizes& m) {
  nlohmann::ordered_json object;
  for (const auto& [entry, value] : config_of(m)) object[entry] = value;
  return object.dump();
}

/// Of what a file says: one short line, however deep it is.
std::string text_of(const nlohmann::json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return value.is_string() ? examples::in_quotes(value.get_ref<const std::string&>()) : value.dump();
}

std::string remedy(const std::string& entry, const nlohmann::json& value) {
  if (entry == "tie_word_embeddings") return value == true ? "; give --tied" : "; leave out --tied";
  const auto* const at =
      std::find_if(option_of.begin(), option_of.end(), [&](const auto& o) { return o.first == entry; });
  if (at == option_of.end()) return ", the only one that this program computes with";
  return "; change " + std::string(at->second);
}

/// Entries that are not there have their usual values.
void check_config(const std::string& where, const std::string& text, const sizes& model) {
  const auto fail = [&](const std::string& fault) { throw std::runtime_error(where + ": " + fault); };
  const nlohmann::json said = nlohmann::json::parse(text, nullptr, false);
  if (!said.is_object()) fail("is no JSON object; expected is the config.json of a Llama");
  const auto expected = config_of(model);
  const auto compare = [&](const nlohmann::json& object) {
    for (const auto& [entry, value] : expected) {
      const auto at = object.find(entry);
      if (at == object.end() || (at->is_null() && entry != "hidden_act")) continue;
      if (*at == value) continue;
      fail(entry + " is " + text_of(*at) + ", not " + value.dump() + remedy(entry, *at));
    }
  };
  compare(said);
  const auto rope = said.find("rope_parameters");  // of transformers from version 5 on
  if (rope == said.end() || !rope->is_object()) return;
  compare(*rope);
  const auto kind = rope->find("rope_type");
  if (kind != rope->end() && *kind != "default") fail("rope_type is not \"default\"" + remedy({}, {}));
}

void check_config_beside(const std::string& path, const sizes& model) {
  constexpr std::size_t largest = std::size_t{1} << 20U;
  const std::filesystem::path beside = std::filesystem::path(path).parent_path() / "config.json";
  std::ifstream file(beside, std::ios::binary);
  if (!file) return;
  std::string text(largest + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > largest) throw std::runtime_error(beside.string() + ": has more than 1 MiB");
  check_config(beside.string(), text, model);
}

void check_shape(const safetensors_file& file, const stored_tensor& t, const parameter& p) {
  const std::vector<std::uint64_t> expected = shape_of(p);
  if (t.shape == expected) return;
  file.fail("tensor " + t.name + " has the shape " + to_string(t.shape) + ", not " + to_string(expected) + "; change " +
            std::string(convention_of(p).options));
}

}  // namespace

std::string hugging_face_name(const parameter& p) {
  const std::string_view all = p.name;
  std::string there = std::string(convention_of(p).there) + ".weight";
  if (!all.starts_with(layers)) return there;
  return "model." + std::string(all.substr(0, all.rfind('.') + 1)) + there;
}

std::vector<double> load_checkpoint(const std::string& path, const sizes& model) {
  check(model);
  safetensors_file file(path);
  const auto config = file.metadata().find("config");
  if (config != file.metadata().end()) check_config(path + ", metadata \"config\"", config->second, model);
  check_config_beside(path, model);

  const std::vector<parameter> list = list_parameters(model);
  std::vector<double> values(list.back().offset + list.back().size());
  std::size_t used = 0;
  for (const parameter& p : list) {
    const std::string name = hugging_face_name(p);
    const stored_tensor* const t = file.find(name);
    if (t == nullptr) {
      file.fail("has no tensor " + name + (p.name == "head" ? "; give --tied" : "; change --layers, or give a Llama"));
    }
    check_shape(file, *t, p);
    const std::vector<float> from = file.floats(*t);
    const auto odd = std::find_if(from.begin(), from.end(), [](float value) { return !std::isfinite(value); });
    if (odd != from.end()) {
      file.fail("element " + std::to_string(odd - from.begin()) + " of tensor " + name +
                " is not finite; save the model again");
    }
    std::copy(from.begin(), from.end(), values.begin() + static_cast<std::ptrdiff_t>(p.offset));
    ++used;
  }
  for (const stored_tensor& t : file.tensors()) {
    if (used == file.tensors().size()) break;
    if (std::any_of(list.begin(), list.end(), [&](const parameter& p) { return hugging_face_name(p) == t.name; })) {
      continue;
    }
    if (t.name.ends_with(".rotary_emb.inv_freq")) continue;  // of old versions of transformers; it follows from sizes
    const bool is_head = t.name == "lm_head.weight";
    file.fail("tensor " + examples::in_quotes(t.name) + " is not of this model; " +
              (is_head ? "leave out --tied" : "change --layers, or give a Llama"));
  }
  return values;
}

std::string checkpoint(const sizes& model, const std::vector<double>& values, bool as_bf16) {
  const std::vector<parameter> list = list_parameters(model);
  std::vector<stored_tensor> tensors;
  for (const parameter& p : list) {
    tensors.push_back({.name = hugging_face_name(p), .type = as_bf16 ? "BF16" : "F32", .shape = shape_of(p)});
  }
  // transformers reads only files whose format is "pt", PyTorch's.
  std::string bytes = safetensors_header(tensors, {{"format", "pt"}, {"config", config_text(model)}});
  bytes.reserve(bytes.size() + tensors.back().end);
  const auto append = [&](const auto& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const parameter& p : list) {
    for (std::size_t i = p.offset; i < p.offset + p.size(); ++i) {
      const auto value = static_cast<float>(values.at(i));
      if (as_bf16) {
        append(bf16(value));
      } else {
        append(value);
      }
    }
  }
  return bytes;
}

}  // namespace llama
