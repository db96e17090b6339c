#include "options.hpp"

#include <common/result_file.hpp>

#include <CLI/CLI.hpp>

#include <cmath>
#include <iostream>
#include <stdexcept>

namespace planner {
namespace {

std::size_t bytes_of(const char* option, double gib) {
  constexpr double most = 0x1p20;
  if (!(gib >= 0) || gib > most) {
    throw std::invalid_argument(std::string(option) + " is a number of GiB, at least 0 and at most 1048576");
  }
  return static_cast<std::size_t>(gib * 0x1p30);
}

}  // namespace

std::optional<options> parse(int argc, const char* const* argv, int& exit_code) {
  options o;
  double device_gib = 0;
  double host_gib = 0;
  CLI::App app(
      "Reads the record of a training step and finds the placement of its tensors that is fastest within the budgets: "
      "which names,\n"
      "in which layers, to save, offload or compute again. Candidates are stepped through the library on the virtual "
      "GPU: kernels\n"
      "take the recorded time, copies that of the link. scheduler.record() and ho::write_record make such a file; "
      "llama "
      "--record does.",
      "plan");
  app.option_defaults()->always_capture_default();
  app.add_option("RECORD", o.record, "File with the record of a step")->required()->option_text(" ");
  app.add_option("--device-memory", device_gib,
                 "GiB of device memory for the step's tensors and their window. What the trainer has beside them "
                 "(weights, optimizer, workspace) is not in the record: subtract it from what the GPU has")
      ->required()
      ->option_text("GIB");
  app.add_option("--host-memory", host_gib, "GiB of pinned host memory")->required()->option_text("GIB");
  app.add_option("--machine", o.machine,
                 "Copies take the time that they take there, instead of that of the recorded link")
      ->check(CLI::IsMember(ho::virtual_gpu::machine_names()));
  app.add_option("--header", o.header, "Also write the best placement to this C++ header, as planned_placement<Name>");
  app.add_option("--json", o.json, "Also write the table to this file");
  app.add_option("--evaluations", o.evaluations, "Placements that are stepped at most")->check(CLI::Range(4, 100000));
  try {
    app.parse(argc, argv);
    o.within = {bytes_of("--device-memory", device_gib), bytes_of("--host-memory", host_gib)};
    examples::check_distinct({{"RECORD", o.record}}, {{"--header", o.header}, {"--json", o.json}});
    return o;
  } catch (const CLI::Success& help) {
    exit_code = app.exit(help);
  } catch (const std::exception& fault) {  // CLI::ParseError is one
    std::cerr << "plan: " << fault.what() << " (plan --help lists the options)\n";
    exit_code = 2;
  }
  return std::nullopt;
}

}  // namespace planner
