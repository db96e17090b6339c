// The best placement for a recorded step under budgets of memory; --help says how.

#include "answer.hpp"
#include "options.hpp"
#include "output.hpp"

#include <common/result_file.hpp>

#include <hostoffload/schedule/record_file.hpp>

#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

namespace {

namespace ho = hostoffload;

ho::recorded_step read(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw std::runtime_error(path + ": is a folder; give a file");
  errno = 0;
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + ": cannot be opened: " + std::strerror(errno));
  return ho::read_record(in, path);
}

void run(const planner::options& o) {
  const ho::recorded_step record = read(o.record);
  if (o.machine.empty() && !(record.out.rate > 0)) {
    throw std::runtime_error(o.record +
                             ": its step copied nothing, so the link is not in it: name a --machine, or measure the "
                             "link where the step runs (ho::measure_link)");
  }
  const auto machine = o.machine.empty() ? planner::machine_with(record.out, record.in)
                                         : planner::machine_with(ho::virtual_gpu::machine_named(o.machine));
  const planner::step_program program = planner::program_of(record);
  const planner::record_problem problem =
      planner::problem_of(program, o.within, machine.link.to_host.value, machine.link.to_device.value);
  std::optional<examples::result_file> header;
  if (!o.header.empty()) header.emplace(o.header);
  std::optional<examples::result_file> json;
  if (!o.json.empty()) json.emplace(o.json);

  const planner::record_answer answer = planner::answer_of(program, problem, o.within, machine, o.evaluations);
  std::cout << planner::text_of(answer, program, problem, o, machine) << std::flush;
  if (!std::cout) throw std::runtime_error("standard output: cannot be written");
  if (header) header->write(planner::header_of(answer, problem, o));
  if (json) json->write(planner::json_of(answer, problem, o));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int exit_code = 0;
    const std::optional<planner::options> chosen = planner::parse(argc, argv, exit_code);
    if (!chosen) return exit_code;
    run(*chosen);
    return 0;
  } catch (const std::exception& fault) {
    std::cerr << "plan: " << fault.what() << '\n';
    return 1;
  }
}
