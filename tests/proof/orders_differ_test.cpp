// The orders that orders_test.cpp asks the virtual GPU for are others.

#include "catch.hpp"

#include <hostoffload/cuda/stream.hpp>
#include <hostoffload/launch.hpp>
#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/faults.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vg = hostoffload::virtual_gpu;

TEST_CASE("the orders are others: two kernels that nothing orders take effect either way", "[orders]") {
  std::vector<int> seen(3);
  for (std::uint64_t order = 1; order <= 20; ++order) {
    vg::reset(vg::gb200());
    vg::execution_order(order);
    const hostoffload::stream one, two;
    std::string log;
    for (const auto& [stream, letter] : {std::pair{one.get(), 'a'}, std::pair{two.get(), 'b'}}) {
      hostoffload::launch(stream, 1, [&log, letter = letter](std::size_t) { log += letter; }, {.name = "log"});
    }
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    ++seen.at(log == "ab" ? 0 : (log == "ba" ? 1 : 2));
  }
  CHECK(seen[0] > 0);
  CHECK(seen[1] > 0);
  CHECK(seen[2] == 0);
}
