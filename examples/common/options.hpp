#pragma once
// The command line.

#include "example.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace examples {

/// How much device memory offloaded tensors may take: bytes, a number of layers' worth, the least that works, or no
/// bound.
struct window_option {
  enum class kind { bytes, layers, least, unlimited };
  kind is = kind::layers;
  std::size_t count = 3;
};

struct options {
  run_options run;  // the window and the batch of each row are filled in later
  std::vector<std::size_t> batches{4, 12};
  std::vector<std::size_t> placements;  // numbers of the example's
  std::size_t steps = 20;
  std::string machine = "gb200";
  std::size_t scale_to = 0;  // hidden size; 0: full-size machine
  window_option window;
  std::string text;    // file of the training text ...
  std::string tokens;  // ... or, where not empty, of its tokens
  std::string json;    // where not empty, file for the results
  std::string init;    // where not empty, checkpoint to start from
  std::string save;    // where not empty, file for a checkpoint of the weights at the end
  std::string record;  // where not empty, file for the record of a step
};

/// The command line; what is the model's own goes to `of`. Nothing where the program is to end with `exit_code`: help
/// was printed, or one line on standard error.
std::optional<options> parse(example& of, int argc, const char* const* argv, int& exit_code);

}  // namespace examples
