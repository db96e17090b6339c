// Trains a small Llama under several placements and prints what each one costs.

#include "checkpoint.hpp"
#include "training.hpp"

#include "common/program.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace {

class small_llama final : public examples::example_of<llama::training_options> {
public:
  small_llama()
      : example_of({.name = "llama",
                    .model = "a small Llama",
                    .placements = "save: all on the device. offload: all but the residual stream to the host. "
                                  "offload-naive: the same without overlap. remat: the same tensors computed again. "
                                  "mixed: some of each",
                    .full_hidden = 8192,
                    .may_be_captured = true},
                   llama::all_plans) {}

  void add_options(CLI::App& app) override {
    llama::sizes& m = options.model;
    app.add_option("--layers", m.layers, "Number of layers")->group("Model");
    app.add_option("--hidden", m.hidden, "Width of the residual stream")->group("Model");
    app.add_option("--heads", m.heads, "Attention heads")->group("Model");
    app.add_option("--kv-heads", m.kv_heads, "Heads of keys and values")->group("Model");
    app.add_option("--ffn", m.ffn, "Width of the feed-forward block")->group("Model");
    app.add_option("--sequence", m.sequence, "Tokens per sequence")->group("Model");
    app.add_option("--vocabulary", m.vocabulary, "Number of different tokens")->group("Model");
    app.add_flag("--tied", m.tied, "The output layer uses the embedding's weights")->group("Model");
  }

  [[nodiscard]] std::string describe() const override {
    const llama::sizes& s = options.model;
    return fmt::format("Llama: {} layers, hidden {}, {} heads ({} for keys and values), feed-forward {}, sequence {}",
                       s.layers, s.hidden, s.heads, s.kv_heads, s.ffn, s.sequence);
  }
};

}  // namespace

int main(int argc, char** argv) {
  small_llama example;
  return examples::run_program(example, argc, argv);
}
