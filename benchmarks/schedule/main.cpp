// Compares schedules of copies: see options.cpp for what can be chosen, workload.hpp and bounds.hpp for what is
// compared.

#include "measure.hpp"
#include "options.hpp"
#include "output.hpp"
#include "workload.hpp"

#include <common/result_file.hpp>

#include <algorithm>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

std::vector<schedules::workload> chosen_workloads(const schedules::options& o) {
  std::vector<schedules::workload> all;
  for (schedules::workload& w : schedules::named_workloads()) {
    const bool named = std::find(o.workloads.begin(), o.workloads.end(), w.name) != o.workloads.end();
    if (o.workloads.empty() || named) all.push_back(std::move(w));
  }
  for (std::size_t i = 0; i < o.random; ++i) all.push_back(schedules::random_workload(o.seed + i));
  return all;
}

void run(const schedules::options& o) {
  const bool prints_table = !o.json || !o.json_file.empty();
  if (!o.dump.empty()) schedules::make_folder(o.dump);
  std::optional<examples::result_file> file;
  if (!o.json_file.empty()) file.emplace(o.json_file);
  const std::vector<std::string> names = o.schedules.empty() ? schedules::schedule_names() : o.schedules;
  std::vector<schedules::row> rows;
  if (prints_table) std::cout << schedules::legend();
  for (const schedules::workload& w : chosen_workloads(o)) {
    const schedules::bounds b = schedules::bounds_of(w);
    if (!o.dump.empty()) schedules::dump(o.dump, w, b);
    std::vector<schedules::row> of_workload;
    for (const std::string& name : names) {
      schedules::measured m = schedules::measure(w, b, name);
      if (!o.dump.empty() && !m.timeline.segments.empty()) schedules::dump(o.dump, m);
      of_workload.push_back(std::move(m.figures));
    }
    if (prints_table) std::cout << '\n' << schedules::table(w, b, of_workload) << std::flush;
    rows.insert(rows.end(), of_workload.begin(), of_workload.end());
  }
  if (file) file->write(schedules::json(rows));
  if (!prints_table) std::cout << schedules::json(rows) << std::flush;
  if (!std::cout) throw std::runtime_error("standard output: cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int exit_code = 0;
    const auto chosen = schedules::parse(argc, argv, exit_code);
    if (!chosen) return exit_code;
    run(*chosen);
    return 0;
  } catch (const std::exception& fault) {
    std::cerr << "schedule: " << fault.what() << '\n';
    return 1;
  }
}
