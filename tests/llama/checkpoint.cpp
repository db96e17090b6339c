// Checkpoints under Hugging Face's names: what is written keeps to the format and to the names, what is read has to be
// of the model at hand, and training goes on from what was saved.
#include "checkpoint.hpp"

#include "catch.hpp"
#include "common/safetensors.hpp"
#include "runs.hpp"
#include "training/scratch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

namespace {

/// Two layers of [8, 8] and smaller.
llama::sizes small() { return {2, 8, 2, 1, 12, 4, 10, false}; }

/// As many as list_parameters asks for, all different.
std::vector<double> numbers(const llama::sizes& model) {
  const auto list = llama::list_parameters(model);
  std::vector<double> values(list.back().offset + list.back().size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.25 * static_cast<double>(i) - 100;
  return values;
}

/// The tensors of one F32 file, to be changed and written again.
struct contents {
  explicit contents(const llama::sizes& model) {
    const scratch_file written(llama::checkpoint(model, numbers(model), false));
    examples::safetensors_file file(written.path());
    tensors = file.tensors();
    metadata = file.metadata();
  }
  examples::stored_tensor& operator[](const std::string& name) {
    const auto at = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
    REQUIRE(at != tensors.end());
    return *at;
  }
  void erase(const std::string& name) {
    std::erase_if(tensors, [&](const auto& t) { return t.name == name; });
  }
  /// With zeros for data.
  [[nodiscard]] std::string bytes() {
    std::string all = examples::safetensors_header(tensors, metadata);
    return all + std::string(tensors.back().end, '\0');
  }
  std::vector<examples::stored_tensor> tensors;
  examples::safetensors_file::metadata_map metadata;
};

/// What it is refused for, without the file's name; empty where it is not.
std::string fault_of(const std::string& bytes, const llama::sizes& model) {
  const scratch_file file(bytes);
  try {
    static_cast<void>(llama::load_checkpoint(file.path(), model));
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    REQUIRE(text.starts_with(file.path()));
    REQUIRE(text.find('\n') == std::string::npos);
    return text.substr(file.path().size());
  }
  return {};
}

}  // namespace

TEST_CASE("a checkpoint has transformers' names and shapes, and its bytes lie without gaps in that order") {
  const bool tied = GENERATE(false, true);
  llama::sizes model = small();
  model.tied = tied;
  model.layers = 1;
  const scratch_file written(llama::checkpoint(model, numbers(model), true));
  examples::safetensors_file file(written.path());
  using shape = std::vector<std::uint64_t>;
  std::vector<std::pair<std::string, shape>> expected{{"model.embed_tokens.weight", {10, 8}},
                                                      {"model.layers.0.input_layernorm.weight", {8}},
                                                      {"model.layers.0.self_attn.q_proj.weight", {8, 8}},
                                                      {"model.layers.0.self_attn.k_proj.weight", {4, 8}},
                                                      {"model.layers.0.self_attn.v_proj.weight", {4, 8}},
                                                      {"model.layers.0.self_attn.o_proj.weight", {8, 8}},
                                                      {"model.layers.0.post_attention_layernorm.weight", {8}},
                                                      {"model.layers.0.mlp.gate_proj.weight", {12, 8}},
                                                      {"model.layers.0.mlp.up_proj.weight", {12, 8}},
                                                      {"model.layers.0.mlp.down_proj.weight", {8, 12}},
                                                      {"model.norm.weight", {8}}};
  if (!tied) expected.push_back({"lm_head.weight", {10, 8}});
  REQUIRE(file.tensors().size() == expected.size());
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const examples::stored_tensor& t = file.tensors()[i];
    CHECK(t.name == expected[i].first);
    CHECK(t.shape == expected[i].second);
    CHECK(t.type == "BF16");
    CHECK(t.begin == next);
    next = t.end;
  }
  CHECK(file.metadata().at("format") == "pt");
  CHECK_THAT(file.metadata().at("config"),
             has_text("\"num_key_value_heads\":1") && has_text("\"rope_theta\":500000.0"));
}

TEST_CASE("what is written is read again: F32 to the bit, BF16 rounded") {
  const llama::sizes model = small();
  const std::vector<double> values = numbers(model);
  for (const bool as_bf16 : {false, true}) {
    const scratch_file written(llama::checkpoint(model, values, as_bf16));
    const std::vector<double> read = llama::load_checkpoint(written.path(), model);
    REQUIRE(read.size() == values.size());
    for (const llama::parameter& p : llama::list_parameters(model)) {
      for (std::size_t i = p.offset; i < p.offset + p.size(); ++i) {
        const auto value = static_cast<float>(values[i]);
        REQUIRE(read[i] == static_cast<double>(as_bf16 ? static_cast<float>(llama::bf16(value)) : value));
      }
    }
  }
}

TEST_CASE("training goes on from a checkpoint: the loss of a batch is the one it was saved with") {
  const auto type = GENERATE(llama::element::f32, llama::element::bf16);
  auto o = llama_tests::small_options();
  o.type = type;
  o.optimiser.learning_rate = 1e-2;
  o.placement = llama::plan::mixed;
  llama_tests::fresh_gpu(o);
  std::string saved;
  double first = 0;
  double behind = 0;
  {
    const auto run = llama::make_training(o, llama_tests::text());
    first = run->step();
    for (int i = 0; i < 40; ++i) run->step();
    behind = run->loss(0);
    saved = llama::checkpoint(o.model, run->values(), type == llama::element::bf16);
  }
  CHECK(behind < first - 1);
  const scratch_file file(saved);
  o.start = std::make_shared<const std::vector<double>>(llama::load_checkpoint(file.path(), o.model));
  llama_tests::fresh_gpu(o);
  {
    const auto run = llama::make_training(o, llama_tests::text());
    CHECK(run->loss(0) == behind);
    CHECK(run->step() == behind);
    CHECK(run->loss(0) < behind);
  }
  llama_tests::require_no_findings();
  llama_tests::require_no_leaks();
}

TEST_CASE("a checkpoint of other sizes is refused, and the message names what differs and the option") {
  const std::string bytes = llama::checkpoint(small(), numbers(small()), false);
  const auto fault = [&](auto change) {
    llama::sizes model = small();
    change(model);
    return fault_of(bytes, model);
  };
  CHECK(fault([](auto&) {}).empty());
  CHECK_THAT(fault([](auto& m) { m.layers = 3; }), has_text("num_hidden_layers is 2, not 3; change --layers"));
  CHECK_THAT(fault([](auto& m) { m.hidden = 16; }), has_text("hidden_size is 8, not 16; change --hidden"));
  CHECK_THAT(fault([](auto& m) { m.heads = 4; }), has_text("num_attention_heads is 2, not 4; change --heads"));
  CHECK_THAT(fault([](auto& m) { m.kv_heads = 2; }), has_text("num_key_value_heads is 1, not 2; change --kv-heads"));
  CHECK_THAT(fault([](auto& m) { m.ffn = 13; }), has_text("intermediate_size is 12, not 13; change --ffn"));
  CHECK_THAT(fault([](auto& m) { m.vocabulary = 11; }), has_text("vocab_size is 10, not 11; change --vocabulary"));
  CHECK_THAT(fault([](auto& m) { m.tied = true; }),
             has_text("tie_word_embeddings is false, not true; leave out --tied"));
}

TEST_CASE("without the model's config the shapes tell, by the tensor's name") {
  const auto fault = [](auto change) {
    contents c(small());
    c.metadata.clear();
    llama::sizes model = small();
    change(c, model);
    return fault_of(c.bytes(), model);
  };
  const std::string layer = "model.layers.1.";
  CHECK(fault([](auto&, auto&) {}).empty());
  CHECK_THAT(fault([](auto&, auto& m) { m.vocabulary = 11; }),
             has_text(": tensor model.embed_tokens.weight has the shape [10, 8], not [11, 8]; change --vocabulary and "
                      "--hidden"));
  CHECK_THAT(
      fault([](auto&, auto& m) { m.kv_heads = 2; }),
      has_text("model.layers.0.self_attn.k_proj.weight has the shape [4, 8], not [8, 8]; change --hidden, --heads "
               "and --kv-heads"));
  CHECK_THAT(fault([](auto&, auto& m) { m.layers = 3; }),
             has_text("has no tensor model.layers.2.input_layernorm.weight; change --layers"));
  CHECK_THAT(fault([](auto&, auto& m) { m.layers = 1; }),
             has_text("tensor \"model.layers.1.input_layernorm.weight\" is not of this model; change --layers"));
  CHECK_THAT(fault([](auto&, auto& m) { m.tied = true; }),
             has_text("tensor \"lm_head.weight\" is not of this model; leave out --tied"));
  CHECK_THAT(fault([](auto& c, auto&) { c.erase("lm_head.weight"); }),
             has_text("has no tensor lm_head.weight; give --tied"));
  CHECK_THAT(fault([&](auto& c, auto&) {
               c[layer + "mlp.down_proj.weight"].shape = {12, 8};
             }),
             has_text("mlp.down_proj.weight has the shape [12, 8], not [8, 12]"));
  CHECK_THAT(fault([&](auto& c, auto&) {
               c[layer + "input_layernorm.weight"].shape = {1, 8};
             }),
             has_text("input_layernorm.weight has the shape [1, 8], not [8]"));
  CHECK_THAT(fault([&](auto& c, auto&) { c[layer + "mlp.up_proj.weight"].type = "F16"; }),
             has_text("mlp.up_proj.weight\" has type F16; convert the file to F32 or BF16"));
  CHECK_THAT(fault([&](auto& c, auto&) { c[layer + "mlp.up_proj.weight"].name = layer + "mlp.up_proj.bias"; }),
             has_text("has no tensor model.layers.1.mlp.up_proj.weight"));
  CHECK_THAT(fault([&](auto& c, auto&) {
               c.tensors.push_back({.name = layer + "self_attn.q_proj.bias", .type = "F32", .shape = {8}});
             }),
             has_text("q_proj.bias\" is not of this model"));
  CHECK(fault([&](auto& c, auto&) {
          c.tensors.push_back({.name = layer + "self_attn.rotary_emb.inv_freq", .type = "F32", .shape = {2}});
        }).empty());
}

TEST_CASE("a weight that is not finite is refused") {
  std::vector<double> values = numbers(small());
  values[7] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(fault_of(llama::checkpoint(small(), values, true), small()),
             has_text("element 7 of tensor model.embed_tokens.weight is not finite"));
}

TEST_CASE("a config of a model that this program does not compute is refused") {
  const auto fault = [](const std::string& config) {
    contents c(small());
    c.metadata["config"] = config;
    return fault_of(c.bytes(), small());
  };
  const std::string only = ", the only one that this program computes with";
  CHECK(fault("{}").empty());
  CHECK(fault(R"({"rope_theta": 500000, "hidden_size": 8, "rope_scaling": null, "head_dim": null})").empty());
  CHECK(fault(R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})").empty());
  CHECK_THAT(fault("[]"), has_text("metadata \"config\": is no JSON object"));
  CHECK_THAT(fault("{\"hidden_size\": 8"), has_text("is no JSON object"));
  CHECK_THAT(fault(R"({"rope_theta": 10000.0})"), has_text("rope_theta is 10000.0, not 500000.0" + only));
  CHECK_THAT(fault(R"({"rms_norm_eps": 1e-6})"), has_text("rms_norm_eps is 1e-06, not 1e-05" + only));
  CHECK_THAT(fault(R"({"hidden_act": "gelu\n"})"), has_text(R"(hidden_act is "gelu\x0a", not "silu")" + only));
  CHECK_THAT(fault(R"({"attention_bias": true})"), has_text("attention_bias is true, not false"));
  CHECK_THAT(fault(R"({"rope_scaling": {"rope_type": "llama3"}})"), has_text("rope_scaling is an object, not null"));
  CHECK_THAT(fault(R"({"rope_parameters": {"rope_type": "llama3"}})"), has_text("rope_type is not \"default\"" + only));
  CHECK_THAT(fault(R"({"rope_parameters": {"rope_theta": 10000}})"), has_text("rope_theta is 10000, not 500000.0"));
  CHECK_THAT(fault("{\"hidden_size\": " + std::string(100000, '[') + std::string(100000, ']') + "}"),
             has_text("hidden_size is a list, not 8"));
}

TEST_CASE("a config.json beside the file is read as well") {
  const auto folder = std::filesystem::temp_directory_path() / ("hostoffload_config_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  contents c(small());
  c.metadata.clear();
  const std::string path = (folder / "model.safetensors").string();
  std::ofstream(path, std::ios::binary) << c.bytes();
  const auto with = [&](const std::string& config) {
    std::ofstream(folder / "config.json", std::ios::binary) << config;
    return llama::load_checkpoint(path, small());
  };
  CHECK_NOTHROW(with(R"({"num_attention_heads": 2, "tie_word_embeddings": false})"));
  CHECK_THROWS_WITH(with(R"({"num_attention_heads": 4})"),
                    (folder / "config.json").string() + ": num_attention_heads is 4, not 2; change --heads");
  CHECK_THROWS_WITH(with(std::string((1U << 20U) + 1, ' ')), has_text("config.json: has more than 1 MiB"));
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}
