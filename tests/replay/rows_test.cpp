// The published rows, stepped; and every constant that they rest on.

#include "rows.hpp"
#include "arithmetic.hpp"
#include "description_file.hpp"

#include <hostoffload/virtual_gpu/control.hpp>

#include "catch.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace {

replay::description shipped(const std::string& name) {
  return replay::load_description(std::string(HOSTOFFLOAD_REPLAY_MODELS) + "/" + name + ".json").of;
}

replay::row stepped(const std::string& name, const replay::assumptions& with = {}) {
  const auto rows = replay::make_rows(shipped("deepseek-v3"), shipped("llama-3.1-405b"), with);
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.name == name; });
  REQUIRE(found != rows.end());
  replay::row r = *found;
  replay::replay_row(r);
  for (const auto& f : replay::vgpu::findings()) FAIL_CHECK(name << ": " << f.message);
  return r;
}

double error(const replay::row& r) { return r.simulated.tflops_per_device / r.measured->tflops_per_device - 1; }

replay::run_options with_batch(const std::string& row, std::size_t micro_batch) {
  const auto rows = replay::make_rows(shipped("deepseek-v3"), shipped("llama-3.1-405b"), {});
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.name == row; });
  replay::run_options o = found->options;
  o.of.how.micro_batch = micro_batch;
  return o;
}

replay::vgpu::machine gb200_rank() { return replay::as_rank(replay::vgpu::gb200(), {}); }

}  // namespace

TEST_CASE("the published rows: memory is predicted within 10 %, throughput as far as stated") {
  const std::map<std::string, double> within{{"DS1", 0.10}, {"DS3", 0.20}, {"DS4", 0.001}, {"LL1", 0.001},
                                             {"LL2", 0.02}, {"LL3", 0.01}, {"LL4", 0.02}};
  for (const std::string name : {"DS1", "DS2", "DS3", "DS4", "LL1", "LL2", "LL3", "LL4"}) {
    CAPTURE(name);
    const replay::row r = stepped(name);
    REQUIRE(r.simulated.fits);
    CHECK(r.simulated.gpu_peak_gib == Approx(r.measured->gpu_peak_gib).epsilon(0.10));
    if (within.contains(name)) {
      CHECK(std::abs(error(r)) <= within.at(name));
    } else {
      CHECK(std::abs(error(r)) > 0.20);  // DS2, which the model does not explain
      CHECK_FALSE(r.reason.empty());
    }
    const bool fitted = name == "DS4" || name == "LL1" || name == "LL3";
    CHECK((r.throughput == replay::basis::fitted) == fitted);
  }
  CHECK_FALSE(stepped("DS5").simulated.fits);
}

TEST_CASE("pinned host bytes are exact") {
  CHECK(stepped("DS1").simulated.host_gib == 61.0 * 77952 * 32768 / (1024.0 * 1024 * 1024));
  CHECK(stepped("DS3").simulated.host_gib == Approx(145.113).margin(0.0005));
  CHECK(stepped("LL2").simulated.host_gib == 70.875);
  CHECK(stepped("LL4").simulated.host_gib == 70.875);
  CHECK(stepped("DS2").simulated.host_gib == 0);
}

TEST_CASE("save fits at micro batch 3 and not at 4") {
  CHECK(replay::step(gb200_rank(), with_batch("DS4", 3)).fits);
  const replay::outcome four = replay::step(gb200_rank(), with_batch("DS4", 4));
  CHECK_FALSE(four.fits);
  CHECK(four.missing_gib > 0);
  CHECK_FALSE(four.host_is_full);
}

TEST_CASE("our scheduler reaches DS1 in a window of at most 3 layers, and a larger batch fits") {
  const double ds1 = stepped("DS1").simulated.tflops_per_device;
  double best = 0;
  for (const std::string window : {"1", "2", "3"}) {
    const replay::row ours = stepped("ours-DS-" + window);
    REQUIRE(ours.simulated.fits);
    CHECK(ours.simulated.window_gib <= 7.2);
    best = std::max(best, ours.simulated.tflops_per_device);
  }
  CHECK(best >= ds1);
  const replay::row largest = replay::ours_largest(shipped("deepseek-v3"), {});
  CHECK(largest.simulated.fits);
  CHECK(largest.options.of.how.micro_batch > 8);
  CHECK(largest.simulated.tflops_per_device > best);
  CHECK_FALSE(replay::step(gb200_rank(), with_batch("ours-DS-3", largest.options.of.how.micro_batch + 1)).fits);
}

TEST_CASE("without look-ahead a step takes as much longer as its exposed all-to-alls do") {
  const replay::run_options o = with_batch("DS3", 8);
  replay::run_options twice_as_fast = o;
  twice_as_fast.with.all_to_all *= 2;
  const double saved = replay::step(gb200_rank(), o).step_s - replay::step(gb200_rank(), twice_as_fast).step_s;
  const double passes = 5;  // two forward, two backward, and what is sent again
  const double volume = passes * replay::step_volumes(o.of.what, o.of.how).all_to_all;
  CHECK(saved == Approx(volume / o.with.all_to_all / 2).epsilon(0.001));
}

// Constants. A row of three layers shows an effect as well as one of all layers, and sooner.

namespace {

std::vector<replay::outcome> short_rows(const replay::assumptions& with, const replay::vgpu::machine& machine) {
  replay::description ds = shipped("deepseek-v3");
  ds.what.layers = 4;
  replay::description ll = shipped("llama-3.1-405b");
  ll.what.layers = 3;
  ds.how.fsdp = ll.how.fsdp = 4;
  std::vector<replay::outcome> all;
  for (replay::row& r : replay::make_rows(ds, ll, with)) {
    if (r.measured) all.push_back(replay::step(replay::as_rank(machine, with), r.options));
  }
  return all;
}

bool differ(const std::vector<replay::outcome>& a, const std::vector<replay::outcome>& b) {
  return !std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
    return x.fits == y.fits && x.step_s == y.step_s && x.gpu_peak_gib == y.gpu_peak_gib && x.window_gib == y.window_gib;
  });
}

}  // namespace

TEST_CASE("every assumption stands in the table, has a source and an effect, and only three are fitted") {
  const auto& all = replay::all_constants();
  CHECK(all.size() * sizeof(double) == sizeof(replay::assumptions));
  const std::vector<replay::outcome> as_is = short_rows({}, replay::vgpu::gb200());
  std::vector<std::string> fitted;
  for (const replay::constant& c : all) {
    CAPTURE(c.name);
    CHECK(c.source.size() > 10);
    replay::assumptions changed;
    double& value = changed.*c.value;
    if (c.name == "pool_share") {
      value *= 0.2;  // so that something does not fit any more
    } else if (c.name == "all_reduce_256mb") {
      value *= 0.9;  // the smaller array is the slower one
    } else if (c.name == "pipelined_layers" || c.name == "look_ahead_buffers") {
      value += 1;
    } else if (c.name == "deepseek_exposed") {
      value = 0;
    } else if (c.name == "llama_exposed") {
      value = 1;
    } else {
      value *= 1.25;
    }
    CHECK(differ(as_is, short_rows(changed, replay::vgpu::gb200())));
    std::cout << c.name << " = " << replay::assumptions{}.*c.value << " " << c.unit << ": " << c.source << '\n';
    if (!c.fitted_on.empty()) fitted.emplace_back(c.fitted_on);
  }
  CHECK(fitted == std::vector<std::string>{"DS4", "LL1", "LL3"});
}

TEST_CASE("every rate of the machine that a replay uses has a source and an effect") {
  using replay::vgpu::machine;
  using replay::vgpu::sourced;
  struct used {
    const char* name;
    sourced& (*of)(machine&);
    double factor;
  };
  const std::vector<used> all{{"device memory", [](machine& m) -> sourced& { return m.device_memory; }, 0.2},
                              {"BF16", [](machine& m) -> sourced& { return m.compute[hostoffload_bf16]; }, 1.25},
                              {"FP8", [](machine& m) -> sourced& { return m.compute[hostoffload_fp8]; }, 1.25},
                              {"FP4", [](machine& m) -> sourced& { return m.compute[hostoffload_fp4]; }, 1.25},
                              {"HBM", [](machine& m) -> sourced& { return m.hbm; }, 1.25},
                              {"peer", [](machine& m) -> sourced& { return m.peer; }, 1.25},
                              {"to device, all", [](machine& m) -> sourced& { return m.link.all_to_device; }, 0.75},
                              {"to host, all", [](machine& m) -> sourced& { return m.link.all_to_host; }, 0.75},
                              {"first copy", [](machine& m) -> sourced& { return m.link.first_latency; }, 1.25},
                              {"kernel latency", [](machine& m) -> sourced& { return m.kernel_latency; }, 1.25},
                              {"wait latency", [](machine& m) -> sourced& { return m.wait_latency; }, 1.25}};
  const std::vector<replay::outcome> as_is = short_rows({}, replay::vgpu::gb200());
  for (const used& u : all) {
    CAPTURE(u.name);
    machine changed = replay::vgpu::gb200();
    u.of(changed).value *= u.factor;
    CHECK(std::string(u.of(changed).source).size() > 3);
    CHECK(differ(as_is, short_rows({}, changed)));
  }
}

TEST_CASE("the shipped descriptions hold the fitted numbers of the rows") {
  const replay::assumptions fit;
  CHECK(shipped("llama-3.1-405b").matrix_share == fit.llama_matrix_share);
  CHECK(shipped("deepseek-v3").fixed_seconds == fit.deepseek_fixed_seconds);
}
