// Replays two published tables at full size on a virtual GB200, or steps a model and machine of one's own; --help says
// how.

#include "description_file.hpp"
#include "own.hpp"
#include "rows.hpp"
#include "table.hpp"

#include <common/result_file.hpp>

#include <CLI/CLI.hpp>

#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

namespace {

struct options {
  std::string model, machine, json;
  std::size_t micro_batch = 0;
  double window_layers = 3;
  bool sources = false;
};

std::optional<options> parse(int argc, const char* const* argv, int& exit_code) {
  options o;
  CLI::App app(
      "Steps models at full size, without their numbers, on a described machine: every tensor goes through the library "
      "and its\n"
      "scheduler, kernels, copies and collectives take the time that their work takes there. It is a simulation. "
      "Without\n"
      "--model: the rows that NVIDIA published for DeepSeek-V3 and Llama 3.1 405B on GB200, and this library's "
      "scheduler\n"
      "beside them. With it: which placements of that model's tensors fit, and how fast each one is.",
      "replay");
  app.option_defaults()->always_capture_default();
  app.add_option("--model", o.model,
                 "Description of a model and its layout, JSON; those that come with this example: " +
                     std::string(HOSTOFFLOAD_REPLAY_MODELS))
      ->group("Your own model");
  app.add_option("--machine", o.machine,
                 "gb200, gb300, gh200, h200, h100, b200 or a100, or a JSON file that changes one; else as the "
                 "description says")
      ->group("Your own model");
  app.add_option("--micro-batch", o.micro_batch, "Sequences per device; 0: as the description says")
      ->group("Your own model")
      ->check(CLI::Range(0, 4096));
  app.add_option("--window", o.window_layers, "Device memory for offloaded tensors, in layers' worth")
      ->group("Your own model")
      ->check(CLI::Range(1.0, 1000.0));
  app.add_flag("--sources", o.sources,
               "Also print the constants that are assumed, where each comes from, which are fitted");
  app.add_option("--json", o.json, "Also write the table to this file");
  try {
    app.parse(argc, argv);
    if (o.model.empty() && (!o.machine.empty() || o.micro_batch != 0 || o.window_layers != 3)) {
      throw std::invalid_argument("--machine, --micro-batch and --window go with --model");
    }
    return o;
  } catch (const CLI::Success& help) {
    exit_code = app.exit(help);
  } catch (const std::exception& fault) {  // CLI::ParseError is one
    std::cerr << "replay: " << fault.what() << " (replay --help lists the options)\n";
    exit_code = 2;
  }
  return std::nullopt;
}

std::string replay_published(const replay::assumptions& with) {
  const std::string folder = HOSTOFFLOAD_REPLAY_MODELS;
  const auto deepseek = replay::load_description(folder + "/deepseek-v3.json").of;
  const auto llama = replay::load_description(folder + "/llama-3.1-405b.json").of;
  std::vector<replay::row> rows = replay::make_rows(deepseek, llama, with);
  for (replay::row& r : rows) replay::replay_row(r);
  rows.push_back(replay::ours_largest(deepseek, with));
  std::cout << "A simulation: full-size steps on a virtual GB200 with a pool of 165.9 GiB, one rank of 128.\n"
               "Throughput counts FLOPs as MaxText does. mb: sequences per device.\n\n"
            << replay::table(rows);
  return replay::json(rows);
}

std::string compare_own(const options& o, const replay::assumptions& with) {
  replay::described_run run = replay::load_description(o.model);
  if (o.micro_batch != 0) run.of.how.micro_batch = o.micro_batch;
  const auto machine = replay::load_machine(o.machine.empty() ? run.machine : o.machine);
  const auto rows = replay::compare(run.of, machine, o.window_layers, with);
  std::cout << "A simulation; matrix products run at " << run.of.matrix_share << " of the machine's measured rate.\n"
            << replay::table(rows, run.of, replay::as_rank(machine, with));
  return replay::json(rows);
}

void run(const options& o) {
  std::optional<examples::result_file> file;
  if (!o.json.empty()) file.emplace(o.json);
  const replay::assumptions with;
  const std::string json = o.model.empty() ? replay_published(with) : compare_own(o, with);
  if (o.sources) std::cout << '\n' << replay::sources(with, replay::vgpu::gb200());
  if (!std::cout.flush()) throw std::runtime_error("standard output: cannot be written");
  if (file) file->write(json);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int exit_code = 0;
    const std::optional<options> chosen = parse(argc, argv, exit_code);
    if (!chosen) return exit_code;
    run(*chosen);
    return 0;
  } catch (const std::exception& fault) {
    std::cerr << "replay: " << fault.what() << '\n';
    return 1;
  }
}
