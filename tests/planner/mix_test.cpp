// Mixes as ranges, as text and as headers; and problems that contradict themselves.

#include <planner/header.hpp>
#include <planner/mix.hpp>
#include <planner/problem.hpp>

#include "catch.hpp"

#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace ho = hostoffload;
using ho::choice;

/// Two names, `gate` in all of six layers, `router` in the last four, made together.
planner::problem two_names() {
  planner::problem p;
  p.layers = 6;
  p.names = {{"gate", {}}, {"router", {}}};
  p.bytes = {10, 10, 10, 10, 10, 10, 0, 0, 1, 1, 1, 1};
  for (std::size_t layer = 0; layer < 6; ++layer) p.makings.push_back({{{0, layer}, {1, layer}}, 0.5});
  p.to_host = p.to_device = 1;
  return p;
}

std::string message_of(const planner::problem& p) {
  try {
    planner::check(p);
  } catch (const std::invalid_argument& fault) {
    return fault.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a name's ranges are the fewest, and layers without it split none") {
  const planner::problem p = two_names();
  planner::mix m(2, 6, choice::offload);
  m.set(0, {4, 6, choice::save});
  m.set(1, {0, 2, choice::remat});
  CHECK(m.ranges(0) == std::vector<planner::layer_choice>{{0, 4, choice::offload}, {4, 6, choice::save}});
  CHECK(m.ranges(1).size() == 2);

  const planner::mix tidy = tidied(p, m);
  CHECK(tidy.ranges(0) == m.ranges(0));
  CHECK(tidy.ranges(1) == std::vector<planner::layer_choice>{{0, 6, choice::offload}});
  CHECK(describe(p, tidy, 0) == "gate: offload 0-3, save 4-5");
  CHECK(describe(p, tidy, 1) == "router: offload");

  m.set(planner::cell{0, 2}, choice::remat);
  CHECK(describe(p, m, 0) == "gate: offload 0-1, remat 2, offload 3, save 4-5");
}

TEST_CASE("the header has a rule for each choice and range, counted from the nearer end") {
  const planner::problem p = two_names();
  planner::mix m(2, 6, choice::offload);
  m.set(0, {1, 4, choice::remat});
  m.set(0, {4, 6, choice::save});
  CHECK(placement_header(p, m, {"planned for six layers", "of one model"}) ==
        "#pragma once\n"
        "// planned for six layers\n"
        "// of one model\n"
        "\n"
        "#include <hostoffload/placement.hpp>\n"
        "\n"
        "// clang-format off\n"
        "template <class Name>\n"
        "using planned_placement = hostoffload::placement<\n"
        "    Name,\n"
        "    hostoffload::on_layers<0, 1, hostoffload::offload_these<Name::gate>>,\n"
        "    hostoffload::on_layers<1, -2, hostoffload::remat_these<Name::gate>>,\n"
        "    hostoffload::on_layers<-2, hostoffload::end, hostoffload::save_these<Name::gate>>,\n"
        "    hostoffload::offload_these<Name::router>>;\n");

  m = planner::mix(2, 6, choice::save);
  const std::string alike = placement_header(p, m, {});
  CHECK(alike.find("hostoffload::save_these<Name::gate, Name::router>>;") != std::string::npos);

  planner::problem spaced = p;
  spaced.names[1].text = "up or down";
  CHECK_THROWS_WITH(placement_header(spaced, m, {}), Catch::Contains("up or down is no identifier"));
}

TEST_CASE("a problem that contradicts itself is refused in one line") {
  CHECK(message_of(two_names()).empty());
  planner::problem p = two_names();
  p.bytes.pop_back();
  CHECK(message_of(p) == "planner: 11 sizes are given for 2 names in 6 layers");
  p = two_names();
  p.makings.erase(p.makings.begin() + 3);
  CHECK(message_of(p) == "planner: gate of layer 3 may be remat, but nothing makes it again");
  p.names[0].may.remat = false;
  CHECK(message_of(p) == "planner: router of layer 3 may be remat, but nothing makes it again");
  p = two_names();
  p.makings.push_back(p.makings[2]);
  CHECK(message_of(p) == "planner: gate of layer 2 is made by two definitions");
  p = two_names();
  p.names[1].may = {false, false, false};
  CHECK(message_of(p) == "planner: router permits no choice");
  p = two_names();
  p.makings[0].makes.push_back({0, 6});
  CHECK(message_of(p) == "planner: a definition makes a tensor that there is not");
  p = two_names();
  p.to_device = 0;
  CHECK_FALSE(message_of(p).empty());
  p.layers = 0;
  CHECK_FALSE(message_of(p).empty());
}
