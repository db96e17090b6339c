// The raw trainers as their users run them: what they print, what they leave, and what the detector has to say.

#include "catch.hpp"

#include <hostoffload/virtual_gpu/control.hpp>

#include <array>
#include <cstddef>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>

namespace vg = hostoffload::virtual_gpu;

int raw_trainer(int, char** arguments);
int raw_trainer_offload(int, char** arguments);

namespace {

struct printed {
  std::string results, notes;
  vg::copied to_host{};
};

/// What a run prints to std::cout and std::cerr.
printed run(int (*program)(int, char**)) {
  vg::reset(vg::gb200());
  std::ostringstream results;
  std::ostringstream notes;
  std::streambuf* const out = std::cout.rdbuf(results.rdbuf());
  std::streambuf* const err = std::cerr.rdbuf(notes.rdbuf());
  std::string name = "trainer";
  std::array<char*, 2> arguments{name.data(), nullptr};
  const int code = program(1, arguments.data());
  std::cout.rdbuf(out);
  std::cerr.rdbuf(err);
  INFO(notes.str());
  CHECK(code == 0);
  for (const vg::finding& f : vg::findings()) FAIL_CHECK(f.message);
  for (const vg::finding& f : vg::leaks()) FAIL_CHECK(f.message);
  return {results.str(), notes.str(), vg::bytes_copied(vg::direction::to_host)};
}

double number_behind(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + words.size()));
}

}  // namespace

TEST_CASE("raw trainers: with and without the library they print the same bits") {
  const printed plain = run(raw_trainer);
  const printed offloaded = run(raw_trainer_offload);
  CHECK(plain.results == offloaded.results);
  CHECK(plain.results.find("parameters ") != std::string::npos);

  CHECK(number_behind(plain.results, "step 30: loss ") < 0.5 * number_behind(plain.results, "step 1: loss "));
  const double device_before = number_behind(plain.notes, "device memory: ");
  const double device_after = number_behind(offloaded.notes, "device memory: ");
  constexpr double activations = 6 * 4 * 32 * (32 + 96 + 32 + 32 + 32 + 128) * 4 / 1024.0;  // of all six blocks, KiB
  constexpr double window = 384;
  CHECK(device_before - device_after == activations - window);
  // Each of 30 steps copies all of them out; both trainers copy their losses and parameters.
  CHECK(offloaded.to_host.bytes - plain.to_host.bytes == static_cast<std::size_t>(30 * activations * 1024));
}
