// What the library itself costs the host: wall time per offloaded tensor and step, without the CUDA calls. That is the
// time of a step, minus the time of the same list of calls, both over a runtime whose functions do nothing; in
// nanoseconds, each time the median over all steps; with the allocations of all of them. Steps that ask the same, one
// after the other, are played from a list; where every second one asks a little more (alike: 0), none is.

#include "allocations.hpp"
#include "null_runtime.hpp"

#include <hostoffload/hostoffload.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <memory>
#include <string_view>
#include <vector>

namespace {

namespace ho = hostoffload;

enum class name { q, k, v, attention, gate, up, act };
using table =
    ho::placement<name, ho::offload_these<name::q, name::k, name::v, name::attention, name::gate, name::up, name::act>>;
template <name Name>
using tensor = ho::offload_tensor<float, table::of<Name>>;

constexpr std::size_t n = 64;  // elements: nobody touches them
constexpr std::size_t slot = n * sizeof(float);
constexpr std::size_t names = 7;

/// The tensors of a transformer's layer and who awaits whom; the kernels are left out.
struct layer {
  layer(ho::prefetch_scheduler& scheduler, ho::layer_position at)
      : q(scheduler, n, at),
        k(scheduler, n, at),
        v(scheduler, n, at),
        attention(scheduler, n, at),
        gate(scheduler, n, at),
        up(scheduler, n, at),
        act(scheduler, n, at) {
    ho::define_group([](std::span<float>, std::span<float>, std::span<float>) {}, q, k, v);
    attention.define([this](std::span<float>) -> ho::task<> {
      auto a = co_await q;
      auto b = co_await k;
      auto c = co_await v;
    });
    ho::define_group([](std::span<float>, std::span<float>) {}, gate, up);
    act.define([this](std::span<float>) -> ho::task<> {
      auto a = co_await gate;
      auto b = co_await up;
    });
  }
  ho::task<> forward() {
    auto a = co_await attention;
    a.end();
    auto b = co_await act;
  }
  ho::task<> backward() {
    { auto a = co_await std::move(act); }
    {
      auto a = co_await std::move(gate);
      auto b = co_await std::move(up);
    }
    auto a = co_await std::move(attention);
    auto b = co_await std::move(q);
    auto c = co_await std::move(k);
    auto d = co_await std::move(v);
  }

  tensor<name::q> q;
  tensor<name::k> k;
  tensor<name::v> v;
  tensor<name::attention> attention;
  tensor<name::gate> gate;
  tensor<name::up> up;
  tensor<name::act> act;
};

ho::task<> step(std::vector<std::unique_ptr<layer>>& layers, bool one_more) {
  for (auto& l : layers) co_await l->forward();
  if (one_more) auto a = co_await layers.back()->act;
  for (auto l = layers.rbegin(); l != layers.rend(); ++l) co_await (*l)->backward();
}

double seconds_of(const auto& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The middle of them.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Arguments: layers; layers' worth of window, 0 is unlimited; whether steps are planned, and whether they are alike.
void host_cost(benchmark::State& state) {
  constexpr std::size_t most_steps = 1U << 20U;
  const auto count = static_cast<std::size_t>(state.range(0));
  const auto in_window = static_cast<std::size_t>(state.range(1));
  const bool planned = state.range(2) != 0;
  const bool alike = state.range(3) != 0;
  ho::prefetch_scheduler scheduler({.window = in_window == 0 ? ho::unlimited : in_window * names * slot,
                                    .batch_copies_below = 0,  // a call for each, as for tensors of the usual sizes
                                    .plan = planned});
  std::vector<std::unique_ptr<layer>> layers;
  for (std::size_t i = 0; i < count; ++i) {
    layers.push_back(std::make_unique<layer>(scheduler, ho::layer_position{i, count}));
  }
  bool one_more = false;
  const auto run = [&] {
    one_more = !one_more && !alike;
    scheduler.run([&] { return step(layers, one_more); });
  };
  constexpr int steps_before = 64;  // all that grows has grown; the next one samples no times
  for (int i = 0; i < steps_before; ++i) run();
  std::vector<null_runtime::call> calls;
  null_runtime::record_calls(&calls);
  run();
  null_runtime::record_calls(nullptr);

  std::vector<double> of_steps;
  std::vector<double> of_calls;
  of_steps.reserve(most_steps);
  of_calls.reserve(most_steps);
  const std::size_t at_start = allocations();
  for (auto unused : state) {
    const double all = seconds_of(run);
    if (of_steps.size() < most_steps) of_steps.push_back(all);
    state.SetIterationTime(all);
  }
  const std::size_t counted = allocations() - at_start;
  for (std::size_t i = 0; i < of_steps.size(); ++i) {
    of_calls.push_back(seconds_of([&] { null_runtime::replay(calls); }));
  }
  if (scheduler.report().planned != planned) {
    state.SkipWithError(planned ? "the steps follow no plan" : "the steps follow a plan");
    return;
  }
  bool repeated = false;
  for (int i = 0; i < 3; ++i) {  // one may be sampled, and the next one is looked at
    run();
    repeated = repeated || scheduler.report().repeated;
  }
  if (repeated != alike) {
    state.SkipWithError(alike ? "the steps are not repeated" : "the steps are repeated");
    return;
  }
  const double tensors = static_cast<double>(count * names);
  const double calls_ns = median(of_calls) * 1e9 / tensors;
  state.counters["own_ns_per_tensor"] = median(of_steps) * 1e9 / tensors - calls_ns;
  state.counters["calls_ns_per_tensor"] = calls_ns;
  state.counters["calls_per_tensor"] = static_cast<double>(calls.size()) / tensors;
  state.counters["allocations"] = static_cast<double>(counted);
}

BENCHMARK(host_cost)
    ->ArgNames({"layers", "window", "planned", "alike"})
    ->Args({32, 0, 0, 1})
    ->Args({32, 3, 0, 1})
    ->Args({128, 3, 0, 1})
    ->Args({32, 3, 1, 1})
    ->Args({32, 6, 1, 1})
    ->Args({32, 0, 0, 0})
    ->Args({32, 3, 0, 0})
    ->UseManualTime();

}  // namespace

int main(int argc, char** argv) {
  if (std::find(argv, argv + argc, std::string_view("--help")) != argv + argc) {
    std::cout
        << "Nanoseconds of the library's own per offloaded tensor and step (own_ns_per_tensor), the CUDA calls' time\n"
           "taken off, for a number of layers of 7 tensors, a window of so many of them (0: unlimited), steps that\n"
           "are planned or not, alike or not; with the calls and the allocations. Google Benchmark's options:\n\n";
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const std::size_t ran = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return ran == 0 ? 2 : 0;  // said already: the filter matches none
}
