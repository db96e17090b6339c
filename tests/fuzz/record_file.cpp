// Fuzz target: see record_driver.hpp.
#include "record_driver.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it so
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    record_driver::run({data, size});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::abort();
  }
  return 0;
}
