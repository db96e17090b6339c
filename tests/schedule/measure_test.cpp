// This library's rows, and what is written for others to check.

#include "measure.hpp"
#include "bounds.hpp"
#include "catch.hpp"
#include "machine.hpp"
#include "output.hpp"
#include "tiny.hpp"
#include "workload.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace {

schedules::workload named(const std::string& name) {
  for (auto& w : schedules::named_workloads()) {
    if (w.name == name) return w;
  }
  FAIL("no workload " << name);
  return {};
}

nlohmann::json read(const std::filesystem::path& path) {
  std::ifstream file(path);
  REQUIRE(file);
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE(
    "named workloads: the copies are hidden in 1.1 times the least window, and the planned peak is the measured one") {
  for (const auto* name :
       {"deepseek-v3", "llama-405b", "llama-8b-2k", "llama-8b-16k", "qwen3-30b-a3b", "llama-405b-1f1b"}) {
    INFO(name);
    const auto w = named(name);
    const auto b = schedules::bounds_of(w);
    const auto m = schedules::measure(w, b, "planned");
    REQUIRE(m.figures.refused.empty());
    CHECK(m.figures.step_s <= 1.001 * m.figures.bound_s);
    CHECK(m.figures.window_bytes <= 1.1 * m.figures.least_window_bytes);
    CHECK(m.figures.peak_bytes <= m.figures.window_bytes);
    CHECK(m.figures.planned_peak_bytes.value() == m.figures.peak_bytes);
    CHECK(m.figures.step_s >= schedules::least_step(w, m.figures.peak_bytes) - 1e-9);
  }
}

TEST_CASE("random workloads: the planned peak is the measured one, to the byte") {
  for (const std::uint64_t seed :
       {12U, 16U, 34U, 41U, 54U, 57U, 194U}) {  // there copies end close to where others begin
    INFO("seed " << seed);
    const auto w = schedules::random_workload(seed);
    const auto m = schedules::measure(w, schedules::bounds_of(w), "planned");
    REQUIRE(m.figures.refused.empty());
    CHECK(m.figures.planned_peak_bytes.value() == m.figures.peak_bytes);
  }
  // In this one a copy ends while the compute stream starts again, after a wait.
  const auto w = schedules::random_workload(146);
  const auto m = schedules::measure(w, schedules::bounds_of(w), "planned@xla");
  REQUIRE(m.figures.refused.empty());
  CHECK(m.figures.planned_peak_bytes.value() == m.figures.peak_bytes);
}

TEST_CASE("in no more window than each of the others used, ours is at least as fast on DeepSeek-V3") {
  const auto w = named("deepseek-v3");
  const auto b = schedules::bounds_of(w);
  for (const std::string& name : schedules::schedule_names()) {
    const auto at = name.find('@');
    if (at == std::string::npos) continue;
    INFO(name);
    const auto ours = schedules::measure(w, b, name).figures;
    const auto theirs = schedules::measure(w, b, name.substr(at + 1)).figures;
    REQUIRE(ours.refused.empty());
    CHECK(ours.window_bytes <= theirs.window_bytes);
    CHECK(ours.step_s <= theirs.step_s * (1 + 1e-9));
  }
}

TEST_CASE(
    "a window that what one moment needs fills almost wholly: ours is at least as fast as who needs no fixed places") {
  const auto w = schedules::random_workload(170);
  const auto b = schedules::bounds_of(w);
  const auto ours = schedules::measure(w, b, "planned@torchtune").figures;
  const auto theirs = schedules::measure(w, b, "torchtune").figures;
  REQUIRE(ours.refused.empty());
  CHECK(ours.window_bytes <= theirs.window_bytes);
  CHECK(ours.step_s <= 0.8 * theirs.step_s);
}

TEST_CASE("no plan is faster than the floor of the window that it fills") {
  auto all = schedules::named_workloads();
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U, 62U, 126U}) all.push_back(schedules::random_workload(seed));
  for (const auto& w : all) {
    INFO(w.name);
    const auto b = schedules::bounds_of(w);
    const auto r = schedules::measure(w, b, "predicted").figures;
    REQUIRE(r.refused.empty());
    CHECK(r.window_bytes <= 1.1 * b.window_bytes);
    CHECK(r.window_bytes <= 1.03 * r.peak_bytes);
    CHECK(r.step_s >= schedules::least_step(w, r.window_bytes) * (1 - 1e-9));
    CHECK(r.step_s <= 1.02 * r.bound_s);
  }
}

TEST_CASE("a window below the largest access is refused with the reason, and the row says so") {
  const auto w = tiny::step({1e-3, 1e-3, 1e-3}, {{4, 0, {2}}, {4, 0, {2}}}, 1e6, 1e6);
  schedules::bounds b = schedules::bounds_of(w);
  b.window_bytes = 256;
  const auto m = schedules::measure(w, b, "planned");
  CHECK_THAT(m.figures.refused, has_text("too small"));
  const auto row = nlohmann::json::parse(schedules::json({m.figures})).at("rows").at(0);
  CHECK(row.at("refused") == m.figures.refused);
  CHECK_FALSE(row.contains("step_over_bound"));
}

TEST_CASE("names that are none are refused") {
  const auto w = tiny::step({1, 1, 1}, {{1, 0, {2}}});
  for (const auto* name : {"nobody", "planned@nobody", "planned@", ""}) {
    CHECK_THROWS_AS(schedules::measure(w, schedules::bounds_of(w), name), std::invalid_argument);
  }
}

TEST_CASE("what is dumped can be checked: order, dependences, bytes, and the figures of the row") {
  const std::filesystem::path folder = std::filesystem::path("schedule_dump_test");
  std::filesystem::remove_all(folder);
  schedules::make_folder(folder);
  const auto w = schedules::random_workload(1);
  const auto b = schedules::bounds_of(w);
  schedules::dump(folder, w, b);
  for (const auto* name : {"xla", "planned"}) {
    INFO(name);
    const auto m = schedules::measure(w, b, name);
    schedules::dump(folder, m);
    const auto step = read(folder / (w.name + ".json"));
    const auto run = read(folder / (w.name + "." + name + ".json"));
    CHECK(run.at("schedule") == name);

    std::map<std::uint64_t, double> ends;
    std::map<std::string, double> busy_until;  // no resource does two things at once
    double out = 0, in = 0, compute = 0;
    for (const auto& o : run.at("operations")) {
      for (const auto& before : o.at("dependences")) {
        const auto known = ends.find(before.get<std::uint64_t>());
        if (known != ends.end()) CHECK(o.at("end").get<double>() >= known->second);
      }
      ends[o.at("id")] = o.at("end");
      const std::string on = o.at("resource");
      if (on == "none") continue;
      CHECK(o.at("start").get<double>() >= busy_until.try_emplace(on, -1e9).first->second);
      busy_until[on] = o.at("end");
      const std::string what = o.at("operation");
      if (what.rfind("copy out", 0) == 0) out += o.at("bytes").get<double>();
      if (what.rfind("copy in", 0) == 0) in += o.at("bytes").get<double>();
      if (what.find("segment") != std::string::npos) {
        compute += o.at("end").get<double>() - o.at("start").get<double>();
      }
    }
    CHECK(compute == Approx(step.at("bound").at("compute_s").get<double>()));
    CHECK(in <= out);
    CHECK(out <= schedules::total_bytes(w));
    CHECK(run.at("step_over_bound").get<double>() ==
          Approx(busy_until["compute"] / step.at("bound").at("step_s").get<double>()));

    // The peak again, from what was held.
    std::set<double> moments;
    for (const auto& h : run.at("held")) moments.insert(h.at("start").get<double>());
    double most = 0;
    for (const double at : moments) {
      double sum = 0;
      for (const auto& h : run.at("held")) {
        if (h.at("start") <= at && h.at("end") > at) {
          sum += step.at("tensors").at(h.at("tensor").get<std::size_t>()).at("bytes").get<double>();
        }
      }
      most = std::max(most, sum);
    }
    CHECK(most == run.at(std::string(name) == "xla" ? "window_bytes" : "peak_bytes").get<double>());
  }
  std::filesystem::remove_all(folder);
}
