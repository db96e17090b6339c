// Trains a small Llama under several placements and prints what each one costs; see options.cpp for what can be chosen.

#include "checkpoint.hpp"
#include "demo.hpp"
#include "options.hpp"
#include "table.hpp"

#include <common/result_file.hpp>

#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

namespace {

void run(llama::options o) {
  const llama::token_stream data = o.tokens.empty() ? llama::token_stream::from_text(o.text)
                                                    : llama::token_stream::from_bin(o.tokens, o.run.model.vocabulary);
  data.check_sequence(o.run.model.sequence);
  if (!o.init.empty()) {
    o.run.start = std::make_shared<const std::vector<double>>(llama::load_checkpoint(o.init, o.run.model));
  }
  std::optional<examples::result_file> file;
  if (!o.json.empty()) file.emplace(o.json);
  std::optional<examples::result_file> saved;
  if (!o.save.empty()) saved.emplace(o.save);

  llama::device device = llama::make_device(o);
  std::cout << llama::describe(o, device) << '\n' << std::flush;
  const std::vector<llama::row> rows = llama::compare(o, device, data);
  std::cout << llama::table(rows, device) << std::flush;
  if (!std::cout) throw std::runtime_error("standard output: cannot be written");
  if (file) file->write(llama::json(rows, device));
  if (!saved) return;
  if (!rows.front().fits) {
    throw std::runtime_error(o.save +
                             ": is not written: the run did not fit on the device; choose another --placement");
  }
  saved->write(llama::checkpoint(o.run.model, rows.front().parameters, o.run.type == llama::element::bf16));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int exit_code = 0;
    const std::optional<llama::options> chosen = llama::parse(argc, argv, exit_code);
    if (!chosen) return exit_code;
    run(*chosen);
    return 0;
  } catch (const std::exception& fault) {
    std::cerr << "llama: " << fault.what() << '\n';
    return 1;
  }
}
