#include "options.hpp"

#include "device.hpp"
#include "result_file.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace examples {
namespace {

window_option parse_window(std::string_view text) {
  using kind = window_option::kind;
  if (text == "least") return {kind::least, 0};
  if (text == "unlimited") return {kind::unlimited, 0};
  std::size_t number = 0;
  const auto [rest, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view suffix = text.substr(static_cast<std::size_t>(rest - text.data()));
  if (fault == std::errc() && number != 0) {
    if (suffix == "layers" && number <= 1000000) return {kind::layers, number};
    static const std::map<std::string_view, unsigned> shifts{{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    const auto unit = shifts.find(suffix);
    if (unit != shifts.end() && number <= (ho::unlimited >> unit->second)) return {kind::bytes, number << unit->second};
  }
  throw std::invalid_argument("--window " + std::string(text) +
                              " is no size; give for example 512KiB, 3MiB, 3layers, least or unlimited");
}

std::vector<std::string> choices(const example& of) {
  std::vector<std::string> names = of.placements;
  names.emplace_back("all");
  return names;
}

void check(const options& o) {
  // The command line's parser takes a negative number for one near 2^64.
  constexpr std::size_t most = 1'000'000'000;
  if (o.steps < 3) throw std::invalid_argument("--steps must be at least 3: the first two are not timed");
  for (const auto& [option, value] :
       {std::pair("steps", o.steps), std::pair("warm-up", o.run.optimiser.warm_up),
        std::pair("decay-until", o.run.optimiser.decay_until), std::pair("scale-to", o.scale_to)}) {
    if (value > most) {
      throw std::invalid_argument(std::string("--") + option + " must be at most " + std::to_string(most) +
                                  ", and not negative");
    }
  }
  for (const std::size_t batch : o.batches) check_batch(batch, o.run.micro_batches);
  if (!o.save.empty() && (o.placements.size() != 1 || o.batches.size() != 1)) {
    throw std::invalid_argument("--save needs one --placement and one --batch: each run ends with weights of its own");
  }
  if (!o.record.empty() && (o.placements.size() != 1 || o.batches.size() != 1)) {
    throw std::invalid_argument("--record needs one --placement and one --batch: a file has one step");
  }
  // Weights may go back to the checkpoint that they came from: it is read before, and replaced as a whole.
  check_distinct({{"--text", o.text}, {"--tokens", o.tokens}, {"--init", o.init}},
                 {{"--json", o.json}, {"--record", o.record}});
  check_distinct({{"--text", o.text}, {"--tokens", o.tokens}, {"--json", o.json}, {"--record", o.record}},
                 {{"--save", o.save}});
  const adamw_options& a = o.run.optimiser;
  if (!(a.learning_rate > 0) || !std::isfinite(a.learning_rate)) {
    throw std::invalid_argument("--learning-rate must be positive and finite");
  }
  if (a.decay_until != 0 && a.decay_until <= a.warm_up) {
    throw std::invalid_argument("--decay-until " + std::to_string(a.decay_until) + " must be larger than --warm-up " +
                                std::to_string(a.warm_up));
  }
}

}  // namespace

std::optional<options> parse(example& of, int argc, const char* const* argv, int& exit_code) {
  options o;
  o.text = HOSTOFFLOAD_EXAMPLE_TEXT;
  o.scale_to = of.text.full_hidden;
  std::string placement = "all";
  std::string type = "bf16";
  std::string window = "3layers";
  const std::vector<std::string> machines = machine_names();

  CLI::App app(
      "Trains " + of.text.model +
          " with the tensors of the backward pass saved on the device, offloaded to the host, or computed\n"
          "again, and prints what each placement costs." +
          std::string(machines.empty() ? ""
                                       : " Everything runs on this machine's CPU; times and memory are those of a\n"
                                         "described GPU, scaled so that the small model has the proportions of a "
                                         "large one."),
      of.text.name);
  app.option_defaults()->always_capture_default();

  app.add_option("--placement", placement, of.text.placements + ". all: compare them")
      ->check(CLI::IsMember(choices(of)))
      ->group("What to run");
  app.add_option("--steps", o.steps, "Training steps per placement; the first two are not timed")->group("What to run");
  app.add_option("--batch", o.batches, "Sequences per step; several as 4,12")->delimiter(',')->group("What to run");
  app.add_option("--micro-batches", o.run.micro_batches, "Parts that a step is divided into")->group("What to run");
  app.add_option("--type", type, "Element type of weights and tensors")
      ->check(CLI::IsMember({"bf16", "float"}))
      ->group("What to run");
  app.add_option("--seed", o.run.seed, "For weights and batches")
      ->check(
          [](const std::string& text) { return std::string(text.rfind('-', 0) == 0 ? "must not be negative" : ""); })
      ->group("What to run");
  app.add_option("--learning-rate", o.run.optimiser.learning_rate, "Of AdamW")->group("What to run");
  app.add_option("--warm-up", o.run.optimiser.warm_up, "Steps over which the learning rate rises to its value")
      ->group("What to run");
  app.add_option("--decay-until", o.run.optimiser.decay_until,
                 "Step until which the learning rate falls to a tenth along a cosine; 0: it does not fall")
      ->group("What to run");
  if (of.text.may_be_captured) {
    app.add_flag("--graph", o.run.graph, "From the third on, each step is a launch of one captured CUDA graph")
        ->group("What to run");
  }
  app.add_option("--window", window,
                 "Device memory for offloaded tensors: bytes (512KiB, 3MiB), a number of layers' worth (3layers), "
                 "least, unlimited")
      ->group("What to run");
  app.add_option("--json", o.json, "Also write the table to this file")->group("What to run");
  app.add_option("--record", o.record,
                 "Also write what a step does to this file, from which the program plan finds the best placement")
      ->group("What to run");

  app.add_option(
         "--init", o.init,
         "Start from the weights in this safetensors file, with Hugging Face's names; the sizes under Model have "
         "to be the file's")
      ->group("Checkpoint");
  app.add_option("--save", o.save,
                 "Write the weights at the end to this file, likewise, as BF16 or F32 after --type; the optimiser's "
                 "moments are not written")
      ->group("Checkpoint");

  of.add_options(app);

  app.add_option("--text", o.text, "Train on the bytes of this file")->group("Data");
  app.add_option("--tokens", o.tokens, "Train on this token file, in llm.c's .bin format; see --vocabulary")
      ->group("Data");

  if (machines.empty()) {
    o.machine.clear();
    o.scale_to = 0;
  } else {
    app.add_option("--machine", o.machine, "The GPU described")->check(CLI::IsMember(machines))->group("Machine");
    app.add_option("--scale-to", o.scale_to,
                   "Scale the machine down as if --hidden stood for this hidden size; 0: a full-size machine")
        ->group("Machine");
  }

  try {
    app.parse(argc, argv);
    for (std::size_t i = 0; i < of.placements.size(); ++i) {
      if (placement == "all" || placement == of.placements[i]) o.placements.push_back(i);
    }
    o.run.type = type == "float" ? element::f32 : element::bf16;
    o.window = parse_window(window);
    of.check_options();
    if (o.tokens.empty() && of.vocabulary() < 256) {
      throw std::invalid_argument("--vocabulary " + std::to_string(of.vocabulary()) +
                                  " is less than the 256 values of a text's bytes");
    }
    check(o);
    if (o.scale_to != 0 && o.scale_to < of.hidden()) {
      throw std::invalid_argument("--scale-to " + std::to_string(o.scale_to) + " is less than --hidden " +
                                  std::to_string(of.hidden()) + ": it is the size that --hidden stands for, or 0");
    }
    return o;
  } catch (const CLI::Success& help) {
    exit_code = app.exit(help);
  } catch (const std::exception& fault) {  // CLI::ParseError is one
    std::cerr << of.text.name << ": " << fault.what() << " (" << of.text.name << " --help lists the options)\n";
    exit_code = 2;
  }
  return std::nullopt;
}

}  // namespace examples
