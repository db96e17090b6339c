#include "idioms.hpp"

#include "catch.hpp"

#include <string>

namespace {

/// Sum over the layers of act + input, where input(0) = x and act = 3 input + 1 is the input of the next.
float gradient(float x) {
  float total = 0;
  for (std::size_t l = 0; l < idioms::layers; ++l) {
    const float act = 3 * x + 1;
    total += act + x;
    x = act;
  }
  return total;
}

/// All values are whole numbers that float holds: so they are equal on every device.
template <class Expected>
void check_each(const std::vector<float>& values, Expected expected) {
  REQUIRE(values.size() == idioms::elements);
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    REQUIRE(values[i] == expected(static_cast<float>(i)));
  }
}

}  // namespace

TEST_CASE("a table, definitions, awaits and last uses") { check_each(idioms::table_and_coroutines(), gradient); }

TEST_CASE("a captured step") {
  check_each(idioms::captured_step(), [](float x) { return 3 * gradient(x); });
}

TEST_CASE("two tasks at once") {
  check_each(idioms::two_tasks(), [](float x) { return 2 * gradient(x); });
}

TEST_CASE("a read on a second stream") {
  check_each(idioms::second_stream(), [](float x) { return 2 * x; });
}

TEST_CASE("a step in straight lines") {
  check_each(idioms::straight_lines(), [](float x) { return 3 * x + 1; });
}

TEST_CASE("a choice at construction") {
  check_each(idioms::choices_at_construction(), [](float x) { return 5 * x; });
}

TEST_CASE("a value that the host reads in a step") {
  check_each(idioms::value_for_the_host(), [](float x) { return 7 * x; });
}

TEST_CASE("a report names every tensor") {
  const std::string text = idioms::report_text();
  const std::string json = idioms::report_json();
  for (const std::string name : {"input", "gate", "up", "act"}) {
    CAPTURE(name);
    CHECK(text.find(name) != std::string::npos);
    CHECK(json.find('"' + name + '"') != std::string::npos);
  }
}
