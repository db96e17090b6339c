// Recorded steps as files: what is written is read again, and nothing else is taken for a record.

#include "catch.hpp"
#include "steps.hpp"

#include <hostoffload/schedule/record_file.hpp>

#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

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

/// x is produced, y made of it and made again, twice, for two micro batches; the last y is left to the step's end.
ho::recorded_step small() {
  const auto life = [](std::string name, std::uint32_t tensor, ho::choice placed, bool ended,
                       std::vector<ho::recorded_use> uses) {
    return ho::recorded_life{.name = std::move(name),
                             .layer = 3,
                             .bytes = 1000,
                             .placed = placed,
                             .uses = std::move(uses),
                             .tensor = tensor,
                             .ended = ended};
  };
  return {.segment_s = {0.1, 1.0 / 3, 0, 0, 0, 1e-9, 0, 0, 0, 0, 0, 0, 0, 0},
          .lives = {life("the x", 7, ho::choice::offload, true, {{1, 2}, {4, 5}, {7, 8}}),
                    life("y", 2, ho::choice::remat, true, {{3, 5}, {6, 9}}),
                    life("y", 2, ho::choice::remat, false, {{10, 12}})},
          .out = {.rate = 193e9, .rate_while_both = 165e9, .latency_s = 2e-6, .idle_s = 5e-6},
          .in = {.rate = 201e9, .rate_while_both = 165e9, .latency_s = 2e-6, .idle_s = 0},
          .makings = {{.begin = 3, .end = 5, .again = false, .makes = {1}, .inputs = {{0, 4}}},
                      {.begin = 6, .end = 9, .again = true, .makes = {1}, .inputs = {{0, 7}}},
                      {.begin = 10, .end = 12, .again = false, .makes = {2}, .inputs = {}}}};
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

TEST_CASE("a record of a step without copies has no link") {
  ho::recorded_step step = small();
  step.out = step.in = {};
  CHECK(text_of(step).find("\nlink out unseen\nlink in unseen\nsegments 14\n") != std::string::npos);
  CHECK(read(text_of(step)) == step);
}

TEST_CASE("a record of a step in which the compute stream waited says how long that takes") {
  ho::recorded_step step = small();
  step.wait_latency_s = 3e-6;
  CHECK(text_of(step).find(" 2e-06 0\nwait 3e-06\nsegments 14\n") != std::string::npos);
  CHECK(read(text_of(step)) == step);
  std::string text = text_of(step);
  text.replace(text.find("wait 3e-06") + 5, 5, "-1");
  CHECK_THROWS_WITH(read(text), has_text("a.record:4: the wait needs a latency of at least 0"));
  text.replace(text.find("wait -1"), 7, "wat 1");
  CHECK_THROWS_WITH(read(text), has_text("a.record:4: expected \"wait\""));
}

TEST_CASE("the text of a record") {
  CHECK(text_of(small()) ==
        "hostoffload record 3\nlink out 1.93e+11 1.65e+11 2e-06 5e-06\nlink in 2.01e+11 1.65e+11 2e-06 0\nsegments "
        "14\n0.1\n"
        "0.3333333333333333\n0\n0\n0\n1e-09\n0\n0\n0\n0\n0\n0\n0\n0\nlives 3\n"
        "offload 3 1000 7 produced ended 3 1 2 4 5 7 8 the x\n"
        "remat 3 1000 2 defined ended 2 3 5 6 9 y\n"
        "remat 3 1000 2 defined kept 1 10 12 y\n"
        "makings 3\nfirst 3 5 1 1 1 0 4\nagain 6 9 1 1 1 0 7\nfirst 10 12 1 2 0\nend\n");
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
  refused("record 3", "record 1",
          "a.record:1: a record of version 1 does not say how tensors are made: record the step again");
  refused("record 3", "record 2",
          "a.record:1: a record of version 2 does not say how an idle link starts: record the step again");
  refused("record 3", "record 4", "a.record:1: expected \"hostoffload record 3\"");
  refused("link in", "link on", "a.record:3: expected \"in\"");
  refused("1.93e+11", "fast", "a.record:2: expected bytes per second, found \"fast\"");
  refused("1.93e+11", "f\x1b[2J\r", "a.record:2: expected bytes per second, found \"f?[2J?\"");
  refused("1.93e+11", "0", "a.record:2: the link needs rates of at least 1 byte per second");
  refused("2e-06 5e-06", "2e-06 -5e-06", "a.record:2: the link needs rates of at least 1 byte per second");
  refused("2e-06 5e-06", "2e-06", "a.record:2: expected seconds, found the end of the line");
  refused("1.93e+11", "inf", "a.record:2: the link needs rates of at least 1 byte per second");
  refused("2.01e+11 1.65e+11 2e-06 0", "unseen", "a.record:3: both ways of the link are unseen, or none is");
  refused("0.1\n", "0.1 s\n", "a.record:5: unexpected \"s\"");
  refused("0.1\n", "-0.1\n", "a.record:5: the segment has no time");
  refused("0.1\n", "nan\n", "a.record:5: the segment has no time");
  refused("segments 14", "segments 15", "a.record:19: expected seconds, found \"lives\"");
  refused("segments 14", "segments 13", "a.record:18: expected \"lives\"");
  refused("segments 14", "segments -1", "a.record:4: expected a count, found \"-1\"");
  refused("offload 3", "keep 3", "a.record:20: expected save, offload or remat, found \"keep\"");
  refused("1000", "-1", "a.record:20: expected bytes, found \"-1\"");
  refused("1000", "0", "a.record:20: the x[3] has no bytes");
  refused("1000", "2000000000000000000", "a.record:20: the x[3] has more than 1152921504606846976 bytes");
  refused("1000", "1152921504606846000", "a.record:21: the lives have more than 1152921504606846976 bytes together");
  refused("produced ended", "made ended", "a.record:20: expected produced or defined, found \"made\"");
  refused("produced ended", "produced over", "a.record:20: expected kept or ended, found \"over\"");
  refused("produced", "defined", "a.record:20: the x[3] is defined, and no making makes it first");
  refused("defined kept", "produced kept", "a.record:22: y[3] is produced, and a making makes it first");
  refused("1 2 4 5", "1 2 5 4", "a.record:20: the x[3] has use 1 from point 5 to 4");
  refused("1 2 4 5", "1 2 4", "a.record:20: expected a point, found \"the\"");
  refused("10 12 y", "10 15 y", "a.record:22: y[3] has use 0 from point 10 to 15");
  refused("10 12 y", "8 12 y", "a.record:22: y[3] begins while an earlier life of its tensor goes on");
  refused("10 12 y", "10 12 z", "a.record:22: z[3] is of tensor 2, as is y[3], which differs");
  refused("lives 3", "lives 2", "a.record:22: expected \"makings\"");
  refused("makings 3", "makings 2", "a.record:26: expected \"end\"");
  refused("makings 3", "makings 4", "a.record:27: expected first or again, found \"end\"");
  refused("first 3 5", "last 3 5", "a.record:24: expected first or again, found \"last\"");
  refused("first 3 5", "first 5 3", "a.record:24: the making is from point 5 to 3");
  refused("first 3 5", "first 2 5", "a.record:24: the making does not make y[3] first");
  refused("again 6 9 1 1", "first 6 9 1 1", "a.record:25: the making does not make y[3] first");
  refused("again 6 9 1 1", "again 6 9 1 3", "a.record:25: the making makes life 3, which there is not");
  refused("again 6 9", "again 2 9", "a.record:25: the making begins before the making in front of it");
  refused("again 6 9", "again 4 9", "a.record:25: the making begins before the making in front of it, or ends behind");
  refused("again 6 9 1 1", "again 6 9 0", "a.record:25: the making makes nothing");
  refused("1 0 7", "1 3 7", "a.record:25: the making awaits life 3, which there is not");
  refused("1 0 7", "1 0 9", "a.record:25: the making awaits the x[3] at point 9");
  refused("1 0 7", "1 2 7",
          "a.record:25: the making awaits y[3] at point 7: inputs are awaited within the making, when");
  refused("12 1 2 0\nend", "12 1 2 0\n", "a.record:27: expected \"end\"");
  refused("\nend\n", "\n", "a.record:27: the file ends too soon");
  refused("end\n", "end\nmore\n", "a.record:28: unexpected text behind the end");
}

TEST_CASE("records with any one word or line missing, doubled or changed are read whole or refused with their line") {
  const std::uint64_t seed = 20260729;
  INFO("seed " << seed);
  std::mt19937_64 draw(seed);
  const std::string good = text_of(small());
  std::size_t refusals = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    const std::size_t at = draw() % text.size();
    const std::size_t n = 1 + draw() % 6;
    switch (draw() % 4) {
      case 0:
        text.erase(at, n);
        break;
      case 1:
        text.insert(at, text.substr(at, n));
        break;
      case 2:
        text[at] = static_cast<char>(' ' + draw() % 95);
        break;
      default:
        text.resize(at);
    }
    INFO(text);
    try {
      const ho::recorded_step step = read(text);
      CHECK(read(text_of(step)) == step);
    } catch (const ho::usage_error& e) {
      ++refusals;
      const std::string what = e.what();
      CHECK(what.rfind("a.record:", 0) == 0);
      CHECK(what.find('\n') == std::string::npos);
    }
  }
  CHECK(refusals > 2000);
}
