#include "program.hpp"

#include "comparison.hpp"
#include "options.hpp"
#include "result_file.hpp"
#include "table.hpp"

#include <hostoffload/schedule/record_file.hpp>

#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace examples {
namespace {

void run(const example& of, options o) {
  const token_stream data =
      o.tokens.empty() ? token_stream::from_text(o.text) : token_stream::from_bin(o.tokens, of.vocabulary());
  data.check_sequence(of.sequence());
  if (!o.init.empty()) {
    o.run.start = std::make_shared<const std::vector<double>>(load_checkpoint(o.init, of.layout()));
  }
  std::optional<result_file> file;
  if (!o.json.empty()) file.emplace(o.json);
  std::optional<result_file> saved;
  if (!o.save.empty()) saved.emplace(o.save);
  std::optional<result_file> recorded;
  if (!o.record.empty()) recorded.emplace(o.record);

  device here = make_device(of, o);
  std::cout << describe(of, o, here) << '\n' << std::flush;
  const std::vector<row> rows = compare(of, o, here, data);
  std::cout << table(of, rows, here) << std::flush;
  if (!std::cout) throw std::runtime_error("standard output: cannot be written");
  if (file) file->write(json(of, rows, here));
  for (const std::string& path : {o.save, o.record}) {
    if (path.empty() || rows.front().fits) continue;
    throw std::runtime_error(path + ": is not written: the run did not fit on the device; choose another --placement");
  }
  if (saved) saved->write(checkpoint(of.layout(), rows.front().parameters, o.run.type == element::bf16));
  if (!recorded) return;
  const std::optional<ho::recorded_step>& record = rows.front().record;
  if (!record) throw std::runtime_error(o.record + ": is not written: the step was not timed");
  std::ostringstream text;
  ho::write_record(text, *record);
  recorded->write(text.str());
}

}  // namespace

int run_program(example& of, int argc, const char* const* argv) {
  try {
    int exit_code = 0;
    const std::optional<options> chosen = parse(of, argc, argv, exit_code);
    if (!chosen) return exit_code;
    run(of, *chosen);
    return 0;
  } catch (const std::exception& fault) {
    std::cerr << of.text.name << ": " << fault.what() << '\n';
    return 1;
  }
}

}  // namespace examples
