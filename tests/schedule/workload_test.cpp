// The workloads are what they say that they are.

#include "workload.hpp"
#include "bounds.hpp"
#include "catch.hpp"
#include "tiny.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace {

constexpr double gibi = 1024.0 * 1024 * 1024;

schedules::workload named(const std::string& name) {
  for (auto& w : schedules::named_workloads()) {
    if (w.name == name) return w;
  }
  FAIL("no workload " << name);
  return {};
}

}  // namespace

TEST_CASE("DeepSeek-V3: 145.113 GiB in 61 layers, a step of 9.04 s, less than 1.5 layers of window") {
  const auto w = named("deepseek-v3");
  CHECK(w.layers == 61);
  CHECK(w.tensors.size() == 4 * 61);
  CHECK(schedules::total_bytes(w) / gibi == Approx(145.113).margin(0.0005));  // as measured in run DS1
  CHECK(schedules::segment_starts(w).back() == Approx(9.04).epsilon(1e-12));
  const auto bound = schedules::bound_step(w);
  CHECK(bound.copies_can_be_hidden());
  const double layer = schedules::total_bytes(w) / 61;
  CHECK(schedules::least_window(w, bound.step_s()) == Approx(layer).epsilon(1e-9));
}

TEST_CASE("Llama 405B: 70.875 GiB of q, k and v in 126 layers, a step of 15.06 s") {
  const auto w = named("llama-405b");
  CHECK(w.tensors.size() == 3 * 126);
  CHECK(schedules::total_bytes(w) / gibi == Approx(70.875).epsilon(1e-12));  // as measured in run LL2
  CHECK(schedules::segment_starts(w).back() == Approx(15.06).epsilon(1e-12));
}

TEST_CASE("Llama 8B on PCIe 5 hides 4.5 C values a token, more easily at 16k than at 2k") {
  const auto near = named("llama-8b-2k");
  const auto far = named("llama-8b-16k");
  CHECK(schedules::total_bytes(near) == Approx(32 * 16384 * 4.5 * 4096 * 2));
  CHECK(schedules::total_bytes(far) == Approx(schedules::total_bytes(near)));
  for (const auto& w : {near, far}) CHECK(schedules::bound_step(w).copies_can_be_hidden());
  CHECK(schedules::segment_starts(far).back() > 1.2 * schedules::segment_starts(near).back());
}

TEST_CASE("Qwen3-30B-A3B: 170 GB/s out and 411 in") {
  const auto w = named("qwen3-30b-a3b");
  CHECK(w.link.out == 170e9);
  CHECK(w.link.in == 411e9);
  CHECK(w.tensors.size() == 48 * 8);
}

TEST_CASE("1F1B: four micro batches are in flight on the first of four stages, first in first out") {
  const auto w = named("llama-405b-1f1b");
  std::set<std::size_t> in_flight;
  std::size_t most = 0;
  std::size_t next_out = 0;
  for (const auto& s : w.segments) {
    if (s.of == schedules::pass::forward) in_flight.insert(s.micro_batch);
    most = std::max(most, in_flight.size());
    if (s.of == schedules::pass::backward && s.layer == 0 && in_flight.erase(s.micro_batch) == 1) {
      CHECK(s.micro_batch == next_out++);
    }
  }
  CHECK(most == 4);
  CHECK(next_out == 8);
  // Without other stages' idle time nothing would be between the last forward pass of the warm-up and the first
  // backward pass.
  CHECK(std::any_of(w.segments.begin(), w.segments.end(), [](const auto& s) { return s.of == schedules::pass::idle; }));
}

TEST_CASE("random workloads are within what is promised, and the same for a seed") {
  double shortest = 1e9, longest = 0, fewest = 1e9, most = 0, steepest = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto w = schedules::random_workload(seed);
    INFO("seed " << seed);
    CHECK_NOTHROW(schedules::check(w));
    CHECK((w.layers >= 4 && w.layers <= 80));
    CHECK((w.micro_batches >= 1 && w.micro_batches <= 8));
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> of_layer;
    for (const auto& t : w.tensors) {
      ++of_layer[{t.micro_batch, t.layer}];
      CHECK((t.bytes >= (std::size_t{1} << 16U) && t.bytes <= (std::size_t{1} << 31U)));
      CHECK((t.used_in.size() == 1 || t.used_in.size() == 2));
      CHECK(w.segments[t.made_in].layer == t.layer);
      CHECK(w.segments[t.used_in.front()].of == schedules::pass::backward);
      CHECK(w.segments[t.used_in.front()].layer == t.layer);
    }
    CHECK(of_layer.size() == w.layers * w.micro_batches);
    for (const auto& [layer, count] : of_layer) CHECK((count >= 1 && count <= 8));
    const double share = schedules::total_bytes(w) / w.link.out / schedules::segment_starts(w).back();
    shortest = std::min(shortest, share);
    longest = std::max(longest, share);
    fewest = std::min(fewest, static_cast<double>(w.layers));
    most = std::max(most, static_cast<double>(w.layers));
    steepest = std::max(steepest, w.link.in / w.link.out);
  }
  CHECK((shortest >= 0.1 - 1e-9 && shortest < 0.15));
  CHECK((longest <= 1.5 + 1e-9 && longest > 1.4));
  CHECK((fewest < 8 && most > 76 && steepest > 2.9 && steepest <= 3));
  const auto one = schedules::random_workload(7), same = schedules::random_workload(7);
  CHECK(one.tensors.size() == same.tensors.size());
  CHECK(one.tensors.back().bytes == same.tensors.back().bytes);
  CHECK(one.link.in == same.link.in);
  CHECK(schedules::random_workload(8).link.in != one.link.in);
}

TEST_CASE("a workload that cannot be is refused with the tensor's name") {
  auto w = tiny::step({1, 1, 1}, {{1, 0, {2}}});
  w.tensors[0].bytes = 100;
  CHECK_THROWS_WITH(schedules::check(w), has_text("t0") && has_text("256"));
  w.tensors[0].bytes = 256;
  w.tensors[0].used_in = {0};
  CHECK_THROWS_WITH(schedules::check(w), has_text("later"));
  w.tensors[0].used_in = {3};
  CHECK_THROWS_WITH(schedules::check(w), has_text("none"));
  w.tensors[0].used_in = {2};
  w.link.in = 0;
  CHECK_THROWS_WITH(schedules::check(w), has_text("rates"));
}

TEST_CASE("the longest gap is found by time, not by number of segments") {
  const auto w = tiny::step({1, 5, 1, 1, 1, 1}, {{1, 0, {2, 5}}});
  const auto g = schedules::longest_gaps(w).front();
  CHECK(g.after == 0);
  CHECK(g.before == 2);
  CHECK(schedules::gaps_of(w.tensors[0]).size() == 2);
  CHECK(schedules::largest_access(w) == 256);
}
