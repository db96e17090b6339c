// bf16, and the count of a step's floating point operations.
#include "catch.hpp"
#include "common.hpp"
#include "placements.hpp"
#include "sizes.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

using llama::bf16;

TEST_CASE("bf16 keeps what it can hold") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    bf16 value{};
    value.bits = static_cast<std::uint16_t>(bits);
    const float wide = static_cast<float>(value);
    if (std::isnan(wide)) {
      REQUIRE(std::isnan(static_cast<float>(bf16(wide))));
    } else {
      REQUIRE(bf16(wide).bits == bits);
    }
  }
}

TEST_CASE("bf16 rounds to nearest, ties to even") {
  CHECK(bf16(1.0F).bits == 0x3f80);
  CHECK(bf16(1.0F + 0x1p-8F).bits == 0x3f80);             // half way, down to even
  CHECK(bf16(1.0F + 0x1p-8F + 0x1p-20F).bits == 0x3f81);  // just above
  CHECK(bf16(1.0F + 3 * 0x1p-8F).bits == 0x3f82);         // half way, up to even
  CHECK(bf16(-1.0F - 3 * 0x1p-8F).bits == 0xbf82);
  CHECK(bf16(std::numeric_limits<float>::max()).bits == 0x7f80);  // rounds to infinity
}

TEST_CASE("a step of Llama 3.1 405B counts for the published TFLOP") {
  llama::sizes s;
  s.layers = 126;
  s.hidden = 16384;
  s.heads = 128;
  s.kv_heads = 8;
  s.ffn = 53248;
  s.vocabulary = 128256;
  s.sequence = 8192;
  CHECK(llama::step_flops(s, 2 * 8192) / 1e12 == Approx(41352).margin(0.5));
}

TEST_CASE("placements name the tensors that they put away") {
  using hostoffload::choice;
  CHECK(llama::names_with(llama::plan::save, choice::offload).empty());
  CHECK(llama::names_with(llama::plan::offload, choice::offload) == "q k v attention lse gate up act");
  CHECK(llama::names_with(llama::plan::offload_naive, choice::offload) ==
        llama::names_with(llama::plan::remat, choice::remat));
  CHECK(llama::names_with(llama::plan::mixed, choice::offload) == "q k v gate up");
  CHECK(llama::names_with(llama::plan::mixed, choice::remat) == "act");
}
