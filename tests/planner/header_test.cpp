// Headers as they are written, compiled here: each table says what its mix says.

#include "header_mixes.hpp"

#include <planner/header.hpp>

#include <hostoffload/placement.hpp>

#include "catch.hpp"

#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>

namespace alike {
#include "headers/alike.hpp"
}
namespace both_ends {
#include "headers/both_ends.hpp"
}
namespace each_layer {
#include "headers/each_layer.hpp"
}
namespace two_layers {
#include "headers/two_layers.hpp"
}
namespace one_layer {
#include "headers/one_layer.hpp"
}

namespace {

namespace ho = hostoffload;
enum class name { q, gate, up };

template <class Table>
ho::choice choice_of(std::size_t of, ho::layer_position at) {
  const std::array choices{Table::template of<name::q>::at(at), Table::template of<name::gate>::at(at),
                           Table::template of<name::up>::at(at)};
  return choices.at(of);
}

using choice_function = ho::choice (*)(std::size_t, ho::layer_position);

choice_function compiled(const std::string& header) {
  if (header == "alike") return &choice_of<alike::planned_placement<name>>;
  if (header == "both_ends") return &choice_of<both_ends::planned_placement<name>>;
  if (header == "each_layer") return &choice_of<each_layer::planned_placement<name>>;
  if (header == "two_layers") return &choice_of<two_layers::planned_placement<name>>;
  REQUIRE(header == "one_layer");
  return &choice_of<one_layer::planned_placement<name>>;
}

}  // namespace

TEST_CASE("a header is written as it lies here, and compiled says what the mix says") {
  std::size_t negative = 0;
  for (const mixes::written& w : mixes::all()) {
    CAPTURE(w.name);
    std::ifstream file(std::string(PLANNER_TEST_HEADERS) + "/" + w.name + ".hpp");
    const std::string here{std::istreambuf_iterator<char>(file), {}};
    CHECK(placement_header(w.of, w.placed, w.notes) == here);
    if (here.find("on_layers<-") != std::string::npos) ++negative;

    const choice_function table = compiled(w.name);
    for (std::size_t of = 0; of < w.of.names.size(); ++of) {
      for (std::size_t layer = 0; layer < w.of.layers; ++layer) {
        CAPTURE(of, layer);
        CHECK(table(of, {layer, w.of.layers}) == w.placed.at({of, layer}));
      }
    }
  }
  CHECK(negative >= 2);
}
