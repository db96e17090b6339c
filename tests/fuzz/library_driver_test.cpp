// The fuzz target's driver with bytes from a generator, so that every run of the tests covers it.
#include "library_driver.hpp"

#include "catch.hpp"

#include <cstdint>
#include <random>
#include <vector>

TEST_CASE("what a trainer may do, in sequences drawn at random, keeps the library's contracts") {
  constexpr std::uint32_t first_seed = 20240520;
  library_driver::tally all;
  for (std::uint32_t seed = first_seed; seed < first_seed + 300; ++seed) {
    std::mt19937 numbers(seed);
    std::vector<std::uint8_t> bytes(32 + numbers() % 400);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(numbers());
    INFO("seed " << seed);
    REQUIRE_NOTHROW(all += library_driver::run(bytes));
  }
  CHECK(all.planned > 100);
  CHECK(all.departed > 100);
  CHECK(all.launches > 100);
  CHECK(all.stale > 10);
  CHECK(all.resized > 100);
  CHECK(all.records > 100);
  CHECK(all.fallen_back > 50);
  CHECK(all.chosen > 5);
}
