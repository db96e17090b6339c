// Descriptions: what is refused, and that the message names the field.

#include "description_file.hpp"
#include "own.hpp"

#include <nlohmann/json.hpp>

#include "catch.hpp"

#include <cstdio>
#include <fstream>
#include <functional>
#include <string>

namespace {

using nlohmann::json;

std::string shipped(const std::string& name) { return std::string(HOSTOFFLOAD_REPLAY_MODELS) + "/" + name + ".json"; }

/// A file of the test's own, gone at its end.
class written_file {
public:
  explicit written_file(const std::string& text) { std::ofstream(name_) << text; }
  written_file(const written_file&) = delete;
  written_file& operator=(const written_file&) = delete;
  ~written_file() { std::remove(name_.c_str()); }
  [[nodiscard]] const std::string& name() const { return name_; }

private:
  std::string name_ = "replay_description_test.json";
};

template <class Load>
std::string fault(const std::string& text, Load load) {
  const written_file file(text);
  try {
    load(file.name());
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "accepted";
}

std::string fault_of(const std::string& model, const std::function<void(json&)>& change) {
  std::ifstream file(shipped(model));
  json j = json::parse(file);
  change(j);
  return fault(j.dump(), [](const std::string& path) { static_cast<void>(replay::load_description(path)); });
}

std::string machine_fault(const json& j) {
  return fault(j.dump(), [](const std::string& path) { static_cast<void>(replay::load_machine(path)); });
}

}  // namespace

TEST_CASE("unknown, missing and ill-typed fields are named") {
  CHECK(fault_of("llama-3.1-8b", [](json&) {}) == "accepted");
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["model"]["layres"] = 3; }),
             has_text("model.layres: there is no such field"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["model"].erase("hidden"); }),
             has_text("model.hidden: this field is missing"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["model"]["hidden"] = -1; }),
             has_text("model.hidden: give a whole number"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["model"]["layers"] = 0; }),
             has_text("model.layers: give a whole number"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["model"]["tied"] = 1; }),
             has_text("model.tied: give true or false"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["model"] = 1; }), has_text("model is no object"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["model"]["attention"]["kind"] = "linear"; }),
             has_text("model.attention.kind: linear is none of grouped, latent"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["layout"]["matrix_type"] = "int8"; }),
             has_text("layout.matrix_type: int8 is none of bf16, fp8, fp4"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["layout"]["offload"] = "q"; }),
             has_text("layout.offload: give a list"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["fixed_seconds"] = "1"; }),
             has_text("fixed_seconds: give a positive number"));
  CHECK_THAT(fault_of("deepseek-v3", [](json& j) { j["model"]["attention"]["kv_heads"] = 8; }),
             has_text("model.attention.kv_heads: there is no such field"));
}

TEST_CASE("fields that contradict each other are named") {
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["model"]["attention"]["kv_heads"] = 5; }),
             has_text("model.attention.kv_heads: 5 does not divide heads, 32"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["layout"]["devices"] = 16; }),
             has_text("layout.devices: 16 is not fsdp x expert_parallel, 8"));
  CHECK_THAT(fault_of("llama-3.1-8b",
                      [](json& j) {
                        j["layout"]["expert_parallel"] = 2;
                        j["layout"]["devices"] = 16;
                      }),
             has_text("layout.expert_parallel: the model has no experts"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["layout"]["offload"] = {"q_a"}; }),
             has_text("layout.offload: the model has no tensor q_a"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["layout"]["offload"] = {"query"}; }),
             has_text("layout.offload: query is none of input q_a"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["layout"]["gather_type"] = "fp4"; }),
             has_text("layout.gather_type: weights cannot travel"));
  CHECK_THAT(fault_of("llama-3.1-8b", [](json& j) { j["matrix_share"] = 1.5; }), has_text("matrix_share: is a share"));
  CHECK_THAT(fault_of("deepseek-v3", [](json& j) { j["model"]["experts"]["top_k"] = 257; }),
             has_text("model.experts.top_k: 257 is more than count, 256"));
  CHECK_THAT(fault_of("deepseek-v3", [](json& j) { j["model"]["experts"]["dense_layers"] = 61; }),
             has_text("model.experts.dense_layers: 61 leaves no layer"));
  CHECK_THAT(fault_of("deepseek-v3",
                      [](json& j) {
                        j["layout"]["expert_parallel"] = 7;
                        j["layout"]["devices"] = 112;
                      }),
             has_text("layout.expert_parallel: 7 does not divide the 256 experts"));
  CHECK_THAT(fault_of("qwen3-30b-a3b", [](json& j) { j["model"]["feed_forward"] = 6144; }),
             has_text("model.feed_forward: every layer has experts"));
}

TEST_CASE("machine files change a machine that is known") {
  CHECK_THAT(machine_fault({{"base", "b400"}, {"name", "x"}}), has_text("base: "));
  CHECK_THAT(machine_fault({{"base", "h200"}, {"name", "x"}, {"hbm", 1}}), has_text("hbm: there is no such field"));
  CHECK_THAT(machine_fault({{"base", "h200"}, {"name", "x"}, {"hbm_gb_s", 0}}),
             has_text("hbm_gb_s: give a positive number"));
  CHECK_THROWS_WITH(replay::load_machine("absent"), has_text("absent: is no file, and none of the machines gb200"));
  const written_file file(R"({"base": "h200", "name": "faster", "to_device_gb_s": 110, "device_memory_gib": 200})");
  const auto m = replay::load_machine(file.name());
  CHECK(m.name == "faster");
  CHECK(m.link.to_device.value == 110e9);
  CHECK(m.link.to_host.value == 55e9);
  CHECK(m.device_memory.value == 200.0 * 1024 * 1024 * 1024);
}

TEST_CASE("files that cannot be read") {
  CHECK_THROWS_WITH(replay::load_description("absent.json"), has_text("absent.json: cannot be opened"));
  CHECK_THROWS_WITH(replay::load_description("."), has_text(".: is a folder"));
  CHECK_THAT(fault("{", [](const std::string& path) { static_cast<void>(replay::load_description(path)); }),
             has_text("is no JSON: at byte"));
}

TEST_CASE("every shipped model runs, and offloading more leaves room for a larger batch") {
  for (const std::string name : {"llama-3.1-8b", "llama-3.1-70b", "qwen3-30b-a3b"}) {
    CAPTURE(name);
    const replay::described_run run = replay::load_description(shipped(name));
    const auto rows = replay::compare(run.of, replay::load_machine(run.machine), 3, {});
    std::size_t remat = 0, offload = 0;
    for (const replay::own_row& r : rows) {
      if (!r.simulated.fits) continue;
      if (r.placement == "remat") remat = std::max(remat, r.micro_batch);
      if (r.placement == "offload more") offload = std::max(offload, r.micro_batch);
    }
    CHECK(remat > 0);
    CHECK(offload > remat);
  }
}

TEST_CASE("a machine without units for the matrix type is refused") {
  const replay::described_run run = replay::load_description(shipped("llama-3.1-405b"));
  CHECK_THROWS_WITH(replay::compare(run.of, replay::load_machine("h200"), 3, {}),
                    has_text("matrix_type: H200 has no units"));
}
