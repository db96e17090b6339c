// Recorded steps as files: what is written is read again, and nothing else is taken for a record.

#include "catch.hpp"
#include "steps.hpp"

#include <hostoffload/schedule/record_file.hpp>

#include <sstream>

namespace {

std::string text_of(const ho::recorded_step& step) {
  std::ostringstream out;
  ho::write_record(out, step);
  return out.str();
}

ho::recorded_step read(const std::string& text) {
  std::istringstream in(text);
  return ho::read_record(in, "a.record");
}

ho::recorded_step small() {
  return {.segment_s = {0.1, 1.0 / 3},
          .lives = {life("q k", 1000, {{0, 1}, {1, 2}})},
          .out = {.rate = 193e9, .rate_while_both = 165e9, .latency_s = 2e-6},
          .in = {.rate = 201e9, .rate_while_both = 165e9, .latency_s = 2e-6}};
}

}  // namespace

TEST_CASE("a record is read as it was written, to the last bit") {
  CHECK(read(text_of(small())) == small());
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    const ho::recorded_step step = drawn_step(seed, 20, 6, 3);
    CHECK(read(text_of(step)) == step);
  }
}

TEST_CASE("the text of a record") {
  CHECK(text_of(small()) ==
        "hostoffload record 1\nlink out 1.93e+11 1.65e+11 2e-06\nlink in 2.01e+11 1.65e+11 2e-06\nsegments 2\n0.1\n"
        "0.3333333333333333\nlives 1\noffload 0 1000 2 0 1 1 2 q k\nend\n");
}

TEST_CASE("what is no record is refused, with the line") {
  const std::string good = text_of(small());
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& message) {
    std::string text = good;
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
    INFO(text);
    CHECK_THROWS_WITH(read(text), has_text(message));
  };
  refused("record 1", "record 2", "a.record:1: expected \"hostoffload record 1\"");
  refused("link in", "link on", "a.record:3: expected \"in\"");
  refused("1.93e+11", "fast", "a.record:2: expected bytes per second, found \"fast\"");
  refused("0.1\n", "0.1 s\n", "a.record:5: unexpected \"s\"");
  refused("segments 2", "segments 3", "a.record:7: expected seconds, found \"lives\"");
  refused("offload 0", "keep 0", "a.record:8: expected save, offload or remat, found \"keep\"");
  refused("1000", "-1", "a.record:8: expected bytes, found \"-1\"");
  refused("\nend\n", "\n", "a.record:9: the file ends too soon");
  refused("end\n", "end\nmore\n", "a.record:10: unexpected text behind the end");
  refused("1000", "0", "a.record: recorded step: life 0 (q k[0]) has no bytes");
}
