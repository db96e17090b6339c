#include "options.hpp"

#include "measure.hpp"
#include "workload.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <exception>
#include <iostream>
#include <iterator>

namespace schedules {
namespace {

std::vector<std::string> workload_names() {
  std::vector<std::string> names{"none"};
  for (const workload& w : named_workloads()) names.push_back(w.name);
  return names;
}

}  // namespace

std::optional<options> parse(int argc, const char* const* argv, int& exit_code) {
  options o;
  CLI::App app(
      "Steps training workloads on the virtual GPU under this library's schedule and those of others, and prints what\n"
      "each costs in time and device memory beside what no schedule can beat. Nothing runs on a GPU; times are "
      "virtual.",
      "schedule");
  app.add_option("--workload", o.workloads, "Only these of the named workloads; none: no named one")
      ->check(CLI::IsMember(workload_names()));
  app.add_option("--schedule", o.schedules, "Only these schedules")->check(CLI::IsMember(schedule_names()));
  app.add_option("--random", o.random, "So many random workloads as well")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Seed of the first random workload; the others have the seeds that follow")
      ->capture_default_str();
  auto* json = app.add_option("--json", o.json_file, "Rows as JSON: to a file, or in place of the table")
                   ->expected(0, 1)
                   ->type_name("[FILE]");
  app.add_option("--dump", o.dump, "Write each workload and each timeline as JSON into this folder")->type_name("DIR");
  try {
    app.parse(argc, argv);
    o.json = json->count() != 0;
    if (o.random == 0 && !o.workloads.empty() &&
        std::count(o.workloads.begin(), o.workloads.end(), "none") == std::ssize(o.workloads)) {
      throw CLI::ValidationError("--workload none and --random 0 leave nothing to step");
    }
    return o;
  } catch (const CLI::Success& help) {
    exit_code = app.exit(help);
  } catch (const CLI::ParseError& fault) {
    std::cerr << "schedule: " << fault.what() << " (schedule --help lists the options)\n";
    exit_code = 2;
  }
  return std::nullopt;
}

}  // namespace schedules
