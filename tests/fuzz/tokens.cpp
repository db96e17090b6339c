// Fuzz target: a token file of any bytes is read whole or refused with one line.
#include "common/tokens.hpp"

#include "memory_file.hpp"

#include <cstdlib>
#include <vector>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it so
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t vocabulary = 1000;
  constexpr std::size_t header_bytes = 1024;
  const memory_file file({data, size});
  try {
    const auto tokens = examples::token_stream::from_bin(file.path(), vocabulary);
    if (header_bytes + 2 * tokens.size() != size) std::abort();
    if (tokens.size() < 2) return 0;
    std::vector<std::int32_t> inputs(tokens.size() - 1);
    std::vector<std::int32_t> targets(inputs.size());
    tokens.fill(1, 0, inputs.size(), inputs, targets);
    for (const std::int32_t token : targets) {
      if (token < 0 || token >= static_cast<std::int32_t>(vocabulary)) std::abort();
    }
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    if (!text.starts_with(file.path() + ": ") || text.find('\n') != std::string::npos) std::abort();
  }
  return 0;
}
