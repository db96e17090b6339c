// The report: what a step did, in bytes that can be counted by hand, and times that can be computed by hand.

#include "gpu.hpp"

#include <hostoffload/virtual_gpu/faults.hpp>

#include <cstdlib>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

using namespace ho::literals;

namespace {

enum class name { x, y, z };
template <name Name>
using tensor = ho::offload_tensor<float, ho::any_placement<Name>>;

constexpr std::size_t n = 1024;
constexpr std::size_t slot = n * sizeof(float);

/// Three layers of x (offloaded), y (rematerialised) and z (saved) in a window of two slots.
struct model {
  explicit model(ho::prefetch_scheduler& scheduler) {
    const auto make = [](std::span<float> out) { fill(nullptr, out.data(), out.size(), 1); };
    for (std::size_t i = 0; i < 3; ++i) {
      x.push_back(std::make_unique<tensor<name::x>>(scheduler, n, ho::layer_position{i, 3}, ho::choice::offload));
      y.push_back(std::make_unique<tensor<name::y>>(scheduler, n, ho::layer_position{i, 3}, ho::choice::remat));
      z.push_back(std::make_unique<tensor<name::z>>(scheduler, n, ho::layer_position{i, 3}, ho::choice::save));
      x.back()->define(make);
      y.back()->define(make);
      z.back()->define(make);
    }
  }
  ho::task<> train() {
    for (std::size_t i = 0; i < 3; ++i) {
      auto a = co_await *x[i];
      auto b = co_await *y[i];
      auto c = co_await *z[i];
    }
    for (std::size_t i = 3; i-- > 0;) {
      auto a = co_await std::move(*x[i]);
      auto b = co_await std::move(*y[i]);
      auto c = co_await std::move(*z[i]);
    }
  }
  std::vector<std::unique_ptr<tensor<name::x>>> x;
  std::vector<std::unique_ptr<tensor<name::y>>> y;
  std::vector<std::unique_ptr<tensor<name::z>>> z;
};

}  // namespace

TEST_CASE("the report counts bytes per tensor name and in all") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .sample_every = 0, .observer = watched});
  CHECK(scheduler.report().step == 0);
  model m(scheduler);
  for (int step = 0; step < 3; ++step) scheduler.run([&] { return m.train(); });
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const ho::step_report r = scheduler.report();
  CHECK(r.step == 3);
  CHECK(r.window_bytes == 2 * slot);
  CHECK(r.window_peak_bytes == 2 * slot);
  CHECK(r.least_window_bytes == slot);
  CHECK(r.host_bytes == 3 * slot);
  CHECK(r.host_peak_bytes == 3 * slot);
  CHECK(r.bytes_out == 3 * slot);
  CHECK(r.bytes_in == slot);  // the last two are taken over
  CHECK(r.copies_out == 3);
  CHECK(r.copies_in == 1);
  CHECK(r.late_fetches == 0);
  CHECK(r.host_waits == 0);
  CHECK(r.device_bytes == 2 * slot + 4 * slot);  // the window; three z and one y
  CHECK(r.device_peak_bytes == 2 * slot + 4 * slot);
  CHECK_FALSE(r.sampled);
  REQUIRE(r.tensors.size() == 3);
  const ho::tensor_report& x = r.tensors[0];
  CHECK(x.name == "x");
  CHECK((x.offloaded == 3 && x.saved == 0 && x.rematerialised == 0));
  CHECK(x.planned_bytes == 3 * slot);
  CHECK(x.freed_bytes == slot);
  CHECK((x.bytes_out == 3 * slot && x.bytes_in == slot));
  const ho::tensor_report& y = r.tensors[1];
  CHECK((y.name == "y" && y.rematerialised == 3 && y.recomputed == 3));
  CHECK((y.planned_bytes == 3 * slot && y.freed_bytes == 3 * slot && y.bytes_out == 0));
  const ho::tensor_report& z = r.tensors[2];
  CHECK((z.name == "z" && z.saved == 3 && z.planned_bytes == 0 && z.recomputed == 0));
}

TEST_CASE("the report is of the newest step that the device has completed, and does not wait for it", "[virtual]") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .observer = watched});
  model m(scheduler);
  scheduler.run([&] { return m.train(); });
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  busy(nullptr, 1.0);
  scheduler.run([&] { return m.train(); });
  const std::uint64_t synchronised = vg::calls("cudaDeviceSynchronize");
  CHECK(scheduler.report().step == 1);
  CHECK(vg::calls("cudaDeviceSynchronize") == synchronised);
  CHECK(vg::now() < 1.0);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(scheduler.report().step == 2);
}

TEST_CASE("exposed time is what the compute stream waits for fetches", "[virtual]") {
  constexpr std::size_t big = 25'000'000;  // 100 MB: about half a millisecond each way on GB200
  const auto exposed = [&](const vg::machine& machine, bool overlap) {
    gpu device(machine);
    ho::prefetch_scheduler scheduler(
        {.window = big * sizeof(float), .overlap = overlap, .sample_every = 1, .observer = watched});
    tensor<name::x> a(scheduler, big, {0, 2}, ho::choice::offload);
    tensor<name::x> b(scheduler, big, {1, 2}, ho::choice::offload);
    for (int step = 0; step < 6; ++step) {
      ho::step s(scheduler);
      for (auto* t : {&a, &b}) {
        auto out = t->produce(nullptr);
        ho::check(cudaMemsetAsync(out.data(), 0, big * sizeof(float), nullptr), "cudaMemsetAsync");
      }
      for (auto* t : {&b, &a}) auto in = std::move(*t).fetch(nullptr);
      s.end();
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    }
    const ho::step_report r = scheduler.report();
    CHECK(r.sampled);
    CHECK(r.step_s > r.exposed_s);
    return r.exposed_s;
  };
  const double out = big * sizeof(float) / 193e9;
  const double in = big * sizeof(float) / 201e9;
  // b's memory waits for a's copy out; then a is fetched, behind b's copy out.
  CHECK(exposed(vg::gb200(), true) == Approx(2 * out + in).epsilon(0.05));
  CHECK(exposed(vg::gb200(), false) == Approx(2 * out + in).epsilon(0.05));
  CHECK(exposed(vg::infinitely_fast_link(vg::gb200()), true) < 0.02 * (2 * out + in));
}

TEST_CASE("times are sampled from the third step on, in one of so many, and cost nothing in the others") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .sample_every = 3, .observer = watched});
  model m(scheduler);
  std::string sampled;
  for (int step = 1; step <= 9; ++step) {
    scheduler.run([&] { return m.train(); });
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    sampled += scheduler.report().sampled ? 'y' : 'n';
  }
  CHECK(sampled == "nnynnynny");
}

TEST_CASE("text and JSON of a report") {
  ho::step_report r;
  std::ostringstream none;
  none << r;
  CHECK(none.str() == "no step has completed yet\n");
  r.step = 12;
  r.step_s = 0.25;
  r.exposed_s = 0.0025;
  r.sampled = true;
  r.window_bytes = 6_GiB;
  r.window_peak_bytes = 5_GiB;
  r.bytes_out = 1536;
  r.copies_out = 3;
  r.tensors.push_back({.name = "gate", .offloaded = 61, .fell_back = 2, .planned_bytes = 3_MiB, .bytes_out = 1536});
  std::ostringstream text;
  text << r;
  CHECK_THAT(text.str(), has_text("step 12") && has_text("window 6.00 GiB, used 5.00 GiB") &&
                             has_text("copies out 3 (1.50 KiB)") && has_text("step time 250 ms, exposed 2.5 ms") &&
                             has_text("2 tensors are not offloaded") && !has_text("plan "));
  r.planned = true;
  r.plan_window_bytes = 4_GiB;
  r.plan_alive_bytes = 3_GiB;
  r.window_top_bytes = 4_GiB;
  r.plan_step_s = 0.25;
  r.plan_exposed_s = -1e-18;  // rounding of a difference
  std::ostringstream planned;
  planned << r;
  CHECK_THAT(planned.str(), has_text("plan followed: window 4.00 GiB, of which 3.00 GiB are alive at one time; "
                                     "4.00 GiB touched; step time 250 ms, exposed 0 ms"));
  r.plan_note = "a reason";
  std::ostringstream without;
  without << r;
  CHECK_THAT(without.str(), has_text("no plan: a reason"));
  r.warnings = {R"(a "quoted" word)"};
  std::ostringstream json;
  ho::to_json(json, r);
  CHECK_THAT(json.str(), has_text(R"("warnings": ["a \"quoted\" word"])"));
  CHECK_THAT(json.str(), has_text("\"step\": 12, \"step_s\": 0.25,") && has_text("\"window_bytes\": 6442450944,") &&
                             has_text("{\"name\": \"gate\", \"saved\": 0, \"offloaded\": 61,") &&
                             has_text("\"planned\": true, \"plan_departures\": 0, \"plan_note\": \"a reason\""));
}

TEST_CASE("the host may be steps ahead of the device: times that are not there yet are left out, and read later",
          "[virtual]") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .sample_every = 1, .observer = watched});
  model m(scheduler);
  scheduler.run([&] { return m.train(); });  // allocates, and waits for the device
  for (int step = 2; step <= 12; ++step) {
    busy(nullptr, 1.0);
    scheduler.run([&] { return m.train(); });
    CHECK_FALSE(scheduler.report().sampled);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  CHECK(vg::now() < 1.0);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const ho::step_report r = scheduler.report();
  CHECK(r.step == 12);
  CHECK(r.sampled);
  CHECK(r.step_s < 1.0);  // the trainer's work between two steps is not in it
}

TEST_CASE(
    "a sampled step in which an event could not be recorded, and that went on all the same, has its times or none",
    "[virtual]") {
  const bool plans = GENERATE(false, true);
  CAPTURE(plans);
  std::size_t without = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    INFO("event " << nth << " of the sampled step");
    const gpu device;
    ho::prefetch_scheduler scheduler({.window = 2 * slot, .sample_every = 3, .plan = plans, .observer = watched});
    std::vector<std::unique_ptr<tensor<name::x>>> all;
    for (std::size_t i = 0; i < 3; ++i)
      all.push_back(std::make_unique<tensor<name::x>>(scheduler, n, ho::layer_position{i, 3}, ho::choice::offload));
    const auto persistent = [](const auto& leased) {
      try {
        return leased();
      } catch (const ho::cuda_error&) {
        return leased();
      }
    };
    const auto run = [&] {
      ho::step s(scheduler);
      for (const auto& t : all) {
        auto out = persistent([&] { return t->produce(nullptr); });
        fill(nullptr, out.data(), n, 1);
      }
      for (std::size_t i = 3; i-- > 0;) auto in = persistent([&] { return std::move(*all[i]).fetch(nullptr); });
      s.end();
    };
    run();
    run();
    vg::fail_call(nth, cudaErrorMemoryAllocation, "cudaEventRecord");
    bool ended = true;
    try {
      run();
    } catch (const ho::cuda_error&) {  // the step's own beginning or end
      ended = false;
    }
    const bool reached = vg::failed_call().has_value();
    vg::clear_faults();
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    const ho::step_report r = scheduler.report();
    CHECK(r.step == (ended ? 3 : 2));
    if (!r.sampled) ++without;
    if (r.sampled) CHECK((r.exposed_s > 0 && r.exposed_s < r.step_s));
    for (int step = 4; step <= 6; ++step) run();
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(scheduler.report().sampled);
    if (reached) continue;
    CHECK(r.sampled);
    break;
  }
  CHECK(without > 5);
}

namespace {

/// Sets a variable of the environment while it lives.
class variable {
public:
  variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  variable(const variable&) = delete;
  variable& operator=(const variable&) = delete;
  ~variable() { unsetenv(name_); }

private:
  const char* name_;
};

ho::step_report report_of_a_step(ho::prefetch_scheduler& scheduler) {
  scheduler.run([]() -> ho::task<> { co_return; });
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  return scheduler.report();
}

std::string warnings_of(const ho::step_report& r) {
  std::string all;
  for (const std::string_view w : r.warnings) all += std::string(w) + '\n';
  return all;
}

}  // namespace

TEST_CASE("what the environment takes from overlap is said in one report, in text and JSON") {
  const gpu g;
  {
    const variable blocking("CUDA_LAUNCH_BLOCKING", "1");
    const variable connections("CUDA_DEVICE_MAX_CONNECTIONS", "1");
    ho::prefetch_scheduler scheduler({});
    const ho::step_report first = report_of_a_step(scheduler);
    CHECK(first.warnings.size() == 2);
    CHECK_THAT(warnings_of(first),
               Catch::Contains("CUDA_LAUNCH_BLOCKING is set") && Catch::Contains("CUDA_DEVICE_MAX_CONNECTIONS is 1"));
    std::ostringstream text;
    std::ostringstream json;
    text << first;
    ho::to_json(json, first);
    CHECK_THAT(text.str(), Catch::Contains("warning: CUDA_LAUNCH_BLOCKING"));
    CHECK_THAT(json.str(), Catch::Contains("\"warnings\": [\"CUDA_LAUNCH_BLOCKING"));
    CHECK(report_of_a_step(scheduler).warnings.empty());
  }
  const variable harmless("CUDA_LAUNCH_BLOCKING", "0");
  const variable enough("CUDA_DEVICE_MAX_CONNECTIONS", "8");
  ho::prefetch_scheduler scheduler({});
  CHECK(report_of_a_step(scheduler).warnings.empty());
}

TEST_CASE("a lease on a stream that takes turns with the compute stream is a warning") {
  const gpu g;
  const auto warned = [](unsigned compute_flags, bool default_compute, unsigned flags, bool default_other) {
    cudaStream_t compute = nullptr;
    cudaStream_t other = nullptr;
    if (!default_compute) REQUIRE(cudaStreamCreateWithFlags(&compute, compute_flags) == cudaSuccess);
    if (!default_other) REQUIRE(cudaStreamCreateWithFlags(&other, flags) == cudaSuccess);
    std::string text;
    {
      ho::prefetch_scheduler scheduler({.compute = compute});
      tensor<name::x> t(scheduler, 64, {}, ho::choice::save);
      t.define([compute](std::span<float> out) { fill(compute, out.data(), out.size(), 1); });
      ho::step s(scheduler);
      { auto a = t.fetch(other); }
      s.end();
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      text = warnings_of(scheduler.report());
    }
    if (!default_compute) REQUIRE(cudaStreamDestroy(compute) == cudaSuccess);
    if (!default_other) REQUIRE(cudaStreamDestroy(other) == cudaSuccess);
    return !text.empty();
  };
  CHECK(warned(0, true, cudaStreamDefault, false));
  CHECK(warned(cudaStreamDefault, false, 0, true));
  CHECK_FALSE(warned(0, true, cudaStreamNonBlocking, false));
  CHECK_FALSE(warned(cudaStreamNonBlocking, false, 0, true));
  CHECK_FALSE(warned(cudaStreamDefault, false, cudaStreamDefault, false));
}
