// Replays two published tables at full size on a virtual GB200, or steps a model and machine of one's own; --help says
// how.

#include "description_file.hpp"
#include "own.hpp"
#include "plan_output.hpp"
#include "rows.hpp"
#include "table.hpp"

#include <common/result_file.hpp>

#include <CLI/CLI.hpp>

#include <cmath>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

/// What the user gave cannot be used: exit code 2.
class bad_input : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct options {
  std::string model, machine, json, header;
  std::size_t micro_batch = 0;
  std::size_t evaluations = 300;
  double window_layers = 0;
  std::optional<double> device_gib, host_gib;
  bool plan = false;
  bool sources = false;
};

void add_options(CLI::App& app, options& o) {
  const auto own = "Your own model";
  const auto planning = "The best mix";
  constexpr double most_gib = 1024 * 1024;
  app.add_option("--model", o.model,
                 "Description of a model and its layout, JSON, or the name of one that comes with this example: "
                 "deepseek-v3, llama-3.1-405b, llama-3.1-70b, llama-3.1-8b, qwen3-30b-a3b")
      ->group(own);
  app.add_option("--machine", o.machine,
                 "gb200, gb300, gh200, h200, h100, b200 or a100, or a JSON file that changes one; else as the "
                 "description says")
      ->group(own);
  app.add_option("--micro-batch", o.micro_batch,
                 "Sequences per device; 0: as the description says, with --plan the best")
      ->group(own)
      ->check(CLI::Range(0, 4096));
  app.add_option("--window", o.window_layers,
                 "Device memory for offloaded tensors, in layers' worth; else 3, with --plan 2")
      ->group(own)
      ->check(CLI::Range(1.0, 1000.0));
  app.add_flag("--plan", o.plan,
               "Say what to save, offload and compute again, in which layers, and at which micro batch, for the most "
               "throughput: of --model, else of both published models")
      ->group(planning);
  app.add_option("--device-memory", o.device_gib, "GiB of one device; else the share that a framework's pool has")
      ->group(planning)
      ->check(CLI::Range(1.0, most_gib));
  app.add_option("--host-memory", o.host_gib, "GiB of pinned memory per device; else its share of the host's")
      ->group(planning)
      ->check(CLI::Range(0.0, most_gib));
  app.add_option("--evaluations", o.evaluations, "Mixes to step at most")
      ->group(planning)
      ->check(CLI::Range(1, 100000));
  app.add_option("--header", o.header, "Write the mix of --model to this file, as a placement table to compile in")
      ->group(planning);
  app.add_flag("--sources", o.sources,
               "Also print the constants that are assumed, where each comes from, which are fitted");
  app.add_option("--json", o.json, "Also write the table to this file");
}

void check_together(const CLI::App& app) {
  const auto has = [&app](const char* name) { return app.count(name) > 0; };
  for (const char* of_model : {"--machine", "--micro-batch", "--window", "--header"}) {
    if (has(of_model) && !has("--model")) throw std::invalid_argument(std::string(of_model) + " goes with --model");
  }
  for (const char* of_plan : {"--device-memory", "--host-memory", "--evaluations", "--header"}) {
    if (has(of_plan) && !has("--plan")) throw std::invalid_argument(std::string(of_plan) + " goes with --plan");
  }
}

/// A file, or the name of a description that comes with this example.
std::string path_of(const std::string& model) {
  const std::string shipped = std::string(HOSTOFFLOAD_REPLAY_MODELS) + "/" + model + ".json";
  return !std::filesystem::exists(model) && std::filesystem::exists(shipped) ? shipped : model;
}

/// The parser's ranges let it through.
void check_no_nan(const options& o) {
  for (const auto& [option, value] :
       {std::pair("--window", o.window_layers), std::pair("--device-memory", o.device_gib.value_or(0)),
        std::pair("--host-memory", o.host_gib.value_or(0))}) {
    if (std::isnan(value)) throw std::invalid_argument(std::string(option) + ": nan is no number");
  }
}

void check_files(const options& o) {
  const std::string machine = std::filesystem::exists(o.machine) ? o.machine : "";  // else a name
  examples::check_distinct({{"--model", o.model.empty() ? "" : path_of(o.model)}, {"--machine", machine}},
                           {{"--json", o.json}, {"--header", o.header}});
}

std::optional<options> parse(int argc, const char* const* argv, int& exit_code) {
  options o;
  CLI::App app(
      "Steps models at full size, without their numbers, on a described machine: every tensor goes through the library "
      "and its\n"
      "scheduler, kernels, copies and collectives take the time that their work takes there. It is a simulation. "
      "Without\n"
      "--model: the rows that NVIDIA published for DeepSeek-V3 and Llama 3.1 405B on GB200, and this library's "
      "scheduler\n"
      "beside them. With it: which placements of that model's tensors fit, and how fast each one is. With --plan: "
      "which "
      "mix of\n"
      "placements is the fastest in so much memory, and how much faster any could be.",
      "replay");
  add_options(app, o);
  try {
    app.parse(argc, argv);
    check_together(app);
    check_no_nan(o);
    check_files(o);
    return o;
  } catch (const CLI::Success& help) {
    exit_code = app.exit(help);
  } catch (const std::exception& fault) {  // CLI::ParseError is one
    std::cerr << "replay: " << fault.what() << " (replay --help lists the options)\n";
    exit_code = 2;
  }
  return std::nullopt;
}

template <class Load>
auto loaded(const Load& load) {
  try {
    return load();
  } catch (const std::runtime_error& fault) {
    throw bad_input(fault.what());
  }
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
  replay::described_run run = loaded([&] { return replay::load_description(path_of(o.model)); });
  if (o.micro_batch != 0) run.of.how.micro_batch = o.micro_batch;
  const auto machine = loaded([&] { return replay::load_machine(o.machine.empty() ? run.machine : o.machine); });
  const auto rows = replay::compare(run.of, machine, o.window_layers > 0 ? o.window_layers : 3, with);
  std::cout << "A simulation; matrix products run at " << run.of.matrix_share << " of the machine's measured rate.\n"
            << replay::table(rows, run.of, replay::as_rank(machine, with));
  return replay::json(rows);
}

replay::planned_run plan_one(const options& o, const std::string& model, const replay::assumptions& with) {
  const replay::described_run run = loaded([&] { return replay::load_description(path_of(model)); });
  const auto machine =
      replay::as_rank(loaded([&] { return replay::load_machine(o.machine.empty() ? run.machine : o.machine); }), with);
  replay::budgets within = replay::all_of(machine);
  within.device_gib = o.device_gib.value_or(within.device_gib);
  within.host_gib = o.host_gib.value_or(within.host_gib);
  const double window = o.window_layers > 0 ? o.window_layers : 2;
  replay::planned_run planned{run.of, machine.name,
                              replay::plan(run.of, machine, within, window, o.micro_batch, o.evaluations, with)};
  if (!planned.answer.best) throw bad_input(run.of.what.name + ": " + planned.answer.found.missing);
  return planned;
}

std::string plan_models(const options& o, const replay::assumptions& with,
                        std::optional<examples::result_file>& header) {
  const std::vector<std::string> models =
      o.model.empty() ? std::vector<std::string>{"deepseek-v3", "llama-3.1-405b"} : std::vector{o.model};
  std::vector<replay::planned_run> runs;
  runs.reserve(models.size());
  for (const std::string& model : models) runs.push_back(plan_one(o, model, with));
  std::cout << "A simulation; each mix that is compared was stepped.\n";
  for (const replay::planned_run& run : runs) std::cout << '\n' << replay::table(run);
  if (header) header->write(replay::header(runs.front()));
  return replay::json(runs);
}

void run(const options& o) {
  std::optional<examples::result_file> file, header;
  if (!o.json.empty()) file.emplace(o.json);
  if (!o.header.empty()) header.emplace(o.header);
  const replay::assumptions with;
  const std::string json = o.plan            ? plan_models(o, with, header)
                           : o.model.empty() ? replay_published(with)
                                             : compare_own(o, with);
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
  } catch (const bad_input& fault) {
    std::cerr << "replay: " << fault.what() << '\n';
    return 2;
  } catch (const std::exception& fault) {
    std::cerr << "replay: " << fault.what() << '\n';
    return 1;
  }
}
