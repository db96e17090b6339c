// Trains a small DeepSeek-V3 under several placements and prints what each one costs.

#include "checkpoint.hpp"
#include "tensors.hpp"
#include "training.hpp"

#include "common/program.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cmath>
#include <stdexcept>

namespace {

class small_deepseek final : public examples::example_of<moe::training_options> {
public:
  small_deepseek()
      : example_of({.name = "moe",
                    .model = "a small DeepSeek-V3",
                    .placements = "save: all on the device. offload: all but the residual stream to the host. "
                                  "offload-naive: the same without overlap. remat: the same tensors computed again. "
                                  "mixed: some of each. deepseek: q_a, kv_a, gate and up to the host, all else but "
                                  "the layers' inputs computed again",
                    .full_hidden = 7168,
                    .may_be_captured = false},
                   moe::all_plans) {}

  void add_options(CLI::App& app) override {
    moe::sizes& m = options.model;
    const auto size = [&](const char* name, std::size_t& value, const char* what) {
      app.add_option(name, value, what)->group("Model");
    };
    size("--layers", m.layers, "Number of layers");
    size("--dense-layers", m.dense_layers, "Of these, the first ones without experts");
    size("--hidden", m.hidden, "Width of the residual stream");
    size("--heads", m.heads, "Attention heads");
    size("--q-rank", m.q_rank, "Width of the queries' low-rank form, q_a");
    size("--kv-rank", m.kv_rank, "Width of the keys' and values' low-rank form, kv_a, without its rotary part");
    size("--rope-size", m.rope, "Of a head's query and key, the part with rotary positions");
    size("--nope-size", m.nope, "Of a head's query and key, the part without");
    size("--value-size", m.value, "Of a head's value");
    size("--dense-ffn", m.dense_ffn, "Width of a dense layer's feed-forward block");
    size("--experts", m.experts, "Number of experts that tokens are routed to");
    size("--top-k", m.top_k, "Of them, those that a token goes through");
    size("--shared-experts", m.shared, "Number of experts that every token goes through");
    size("--expert-ffn", m.expert_ffn, "Width of an expert");
    size("--groups", m.groups, "Groups of experts");
    size("--top-groups", m.top_groups, "Of them, those that a token's experts are taken from");
    size("--sequence", m.sequence, "Tokens per sequence");
    size("--vocabulary", m.vocabulary, "Number of different tokens");
    app.add_option("--routed-scale", m.routed_scale, "Factor of the routed experts' outputs")->group("Model");
    app.add_option("--balance-rate", options.balance_rate, "By which a step moves the biases of the routers")
        ->group("Routing");
    app.add_option(
           "--capacity", m.capacity_factor,
           "An expert takes at most this times its even share of the tokens, and drops the others; 0: takes all")
        ->group("Routing");
    app.add_option_function<std::string>(
           "--room", [&m](const std::string& room) { m.room_for_routed = room == "routed"; },
           "Window for gate, up and act: for what was routed, or for what --capacity allows")
        ->check(CLI::IsMember({"routed", "capacity"}))
        ->default_str("routed")
        ->group("Routing");
  }

  void check_options() const override {
    example_of::check_options();
    if (!(options.balance_rate >= 0) || !std::isfinite(options.balance_rate)) {
      throw std::invalid_argument("--balance-rate must be 0 or positive, and finite");
    }
  }

  [[nodiscard]] std::string describe() const override {
    const moe::sizes& s = options.model;
    return fmt::format(
        "DeepSeek-V3: {} layers ({} dense), hidden {}, {} heads, ranks {} and {}, {} experts of {} ({} for each token, "
        "and {} shared), sequence {}",
        s.layers, s.dense_layers, s.hidden, s.heads, s.q_rank, s.kv_rank, s.experts, s.expert_ffn, s.top_k, s.shared,
        s.sequence);
  }
};

}  // namespace

int main(int argc, char** argv) {
  small_deepseek example;
  return examples::run_program(example, argc, argv);
}
