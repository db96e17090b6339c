// The fuzz target's driver with bytes from a generator, so that every run of the tests covers it.
#include "record_driver.hpp"

#include "catch.hpp"

#include <cstdint>
#include <random>
#include <vector>

TEST_CASE("any step that agrees with itself is written, read and planned for") {
  constexpr std::uint32_t first_seed = 20240611;
  std::size_t plans = 0;
  for (std::uint32_t seed = first_seed; seed < first_seed + 200; ++seed) {
    std::mt19937 numbers(seed);
    std::vector<std::uint8_t> bytes(40 + numbers() % 200);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(numbers());
    INFO("seed " << seed);
    REQUIRE_NOTHROW(plans += record_driver::plan_any(record_driver::step_from(bytes)));
  }
  CHECK(plans > 3 * 200);  // three windows of each always do
}
