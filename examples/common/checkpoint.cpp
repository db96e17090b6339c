#include "checkpoint.hpp"

#include "element.hpp"
#include "safetensors.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace examples {
namespace {

std::vector<std::uint64_t> shape_of(const parameter& p) {
  return p.kind == parameter_kind::matrix ? std::vector<std::uint64_t>{p.outputs, p.inputs}
                                          : std::vector<std::uint64_t>{p.inputs};
}

/// Of what a file says: one short line, however deep it is.
std::string text_of(const nlohmann::json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return value.is_string() ? in_quotes(value.get_ref<const std::string&>()) : value.dump();
}

std::string remedy(const checkpoint_format& format, const std::string& entry, const nlohmann::json& value) {
  if (format.may_be_tied && entry == "tie_word_embeddings") {
    return value == true ? "; give --tied" : "; leave out --tied";
  }
  for (const auto& each : format.config) {
    if (each.name == entry && !each.option.empty()) return "; change " + each.option;
  }
  return ", the only one that this program computes with";
}

/// Entries that are not there have their usual values.
void check_config(const std::string& where, const std::string& text, const checkpoint_format& format) {
  const auto fail = [&](const std::string& fault) { throw std::runtime_error(where + ": " + fault); };
  const nlohmann::json said = nlohmann::json::parse(text, nullptr, false);
  if (!said.is_object()) fail("is no JSON object; expected is the config.json of " + format.model);
  const auto compare = [&](const nlohmann::json& object) {
    for (const auto& expected : format.config) {
      const auto at = object.find(expected.name);
      if (at == object.end() || (at->is_null() && expected.name != "hidden_act")) continue;
      if (*at == expected.value) continue;
      fail(expected.name + " is " + text_of(*at) + ", not " + expected.value.dump() +
           remedy(format, expected.name, *at));
    }
  };
  compare(said);
  const auto rope = said.find("rope_parameters");  // of transformers from version 5 on
  if (rope == said.end() || !rope->is_object()) return;
  compare(*rope);
  const auto kind = rope->find("rope_type");
  if (kind != rope->end() && *kind != "default") fail("rope_type is not \"default\"" + remedy(format, {}, {}));
}

void check_config_beside(const std::string& path, const checkpoint_format& format) {
  constexpr std::size_t largest = std::size_t{1} << 20U;
  const std::filesystem::path beside = std::filesystem::path(path).parent_path() / "config.json";
  std::ifstream file(beside, std::ios::binary);
  if (!file) return;
  std::string text(largest + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > largest) throw std::runtime_error(beside.string() + ": has more than 1 MiB");
  check_config(beside.string(), text, format);
}

void check_shape(const safetensors_file& file, const stored_tensor& t, const checkpoint_format::stored_parameter& p) {
  const std::vector<std::uint64_t> expected = shape_of(p.here);
  if (t.shape == expected) return;
  file.fail("tensor " + t.name + " has the shape " + to_string(t.shape) + ", not " + to_string(expected) + "; change " +
            p.options);
}

constexpr std::string_view head_name = "lm_head.weight";

}  // namespace

std::vector<double> load_checkpoint(const std::string& path, const checkpoint_format& format) {
  safetensors_file file(path);
  const auto config = file.metadata().find("config");
  if (config != file.metadata().end()) check_config(path + ", metadata \"config\"", config->second, format);
  check_config_beside(path, format);

  const auto& list = format.parameters;
  const std::string other_model = "change --layers, or give " + format.model;
  std::vector<double> values(list.back().here.offset + list.back().here.size());
  for (const auto& p : list) {
    const stored_tensor* const t = file.find(p.name);
    if (t == nullptr) {
      file.fail("has no tensor " + p.name + "; " +
                (format.may_be_tied && p.name == head_name ? "give --tied" : other_model));
    }
    check_shape(file, *t, p);
    const std::vector<float> from = file.floats(*t);
    const auto odd = std::find_if(from.begin(), from.end(), [](float value) { return !std::isfinite(value); });
    if (odd != from.end()) {
      file.fail("element " + std::to_string(odd - from.begin()) + " of tensor " + p.name +
                " is not finite; save the model again");
    }
    std::copy(from.begin(), from.end(), values.begin() + static_cast<std::ptrdiff_t>(p.here.offset));
  }
  if (file.tensors().size() == list.size()) return values;
  for (const stored_tensor& t : file.tensors()) {
    if (std::any_of(list.begin(), list.end(), [&](const auto& p) { return p.name == t.name; })) continue;
    if (t.name.ends_with(".rotary_emb.inv_freq")) continue;  // of old versions of transformers; it follows from sizes
    file.fail("tensor " + in_quotes(t.name) + " is not of this model; " +
              (format.may_be_tied && t.name == head_name ? "leave out --tied" : other_model));
  }
  return values;
}

std::string checkpoint(const checkpoint_format& format, const std::vector<double>& values, bool as_bf16) {
  const auto rounded = [&](const parameter& p) { return as_bf16 && p.kind != parameter_kind::bias; };
  std::vector<stored_tensor> tensors;
  nlohmann::ordered_json config;
  for (const auto& p : format.parameters) {
    tensors.push_back({.name = p.name, .type = rounded(p.here) ? "BF16" : "F32", .shape = shape_of(p.here)});
  }
  for (const auto& entry : format.config) config[entry.name] = entry.value;
  // transformers reads only files whose format is "pt", PyTorch's.
  std::string bytes = safetensors_header(tensors, {{"format", "pt"}, {"config", config.dump()}});
  bytes.reserve(bytes.size() + tensors.back().end);
  const auto append = [&](const auto& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const auto& p : format.parameters) {
    for (std::size_t i = p.here.offset; i < p.here.offset + p.here.size(); ++i) {
      const auto value = static_cast<float>(values.at(i));
      if (rounded(p.here)) {
        append(bf16(value));
      } else {
        append(value);
      }
    }
  }
  return bytes;
}

}  // namespace examples
