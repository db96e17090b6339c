// Small copies that are due together are one call; large ones, and those of a captured step, are a call each.

#include "gpu.hpp"

#include <hostoffload/virtual_gpu/faults.hpp>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace ho::literals;

namespace {

enum class name { a, b, c };
template <name Name>
using tensor = ho::offload_tensor<float, ho::any_placement<Name>>;

constexpr std::size_t n = 256;
constexpr std::size_t slot = n * sizeof(float);
constexpr std::size_t layers = 4;

/// Three tensors that one function makes; `c` has so many elements.
struct layer {
  layer(ho::prefetch_scheduler& scheduler, std::size_t index, std::size_t elements_of_c)
      : a(scheduler, n, {index, layers}, ho::choice::offload),
        b(scheduler, n, {index, layers}, ho::choice::offload),
        c(scheduler, elements_of_c, {index, layers}, ho::choice::offload) {
    const auto make = [first = 10 * static_cast<float>(index), stream = scheduler.compute()](
                          std::span<float> x, std::span<float> y, std::span<float> z) {
      fill(stream, x.data(), x.size(), first);
      fill(stream, y.data(), y.size(), first + 1);
      fill(stream, z.data(), z.size(), first + 2);
    };
    ho::define_group(make, a, b, c);
  }

  tensor<name::a> a;
  tensor<name::b> b;
  tensor<name::c> c;
};

/// The window holds two layers of four.
struct trainer {
  explicit trainer(ho::scheduler_options options, std::size_t elements_of_c = n)
      : scheduler([&] {
          options.compute = compute.get();
          options.window = 2 * (2 * slot + elements_of_c * sizeof(float));
          options.sample_every = 0;
          options.observer = watched;
          return options;
        }()) {
    for (std::size_t i = 0; i < layers; ++i) all.push_back(std::make_unique<layer>(scheduler, i, elements_of_c));
  }

  ho::task<> step() {
    for (auto& l : all) auto first = co_await l->a;
    for (std::size_t i = layers; i-- > 0;) {
      auto a = co_await std::move(all[i]->a);
      auto b = co_await std::move(all[i]->b);
      auto c = co_await std::move(all[i]->c);
      look[i][0].look(compute.get(), a.data());
      look[i][1].look(compute.get(), b.data());
      look[i][2].look(compute.get(), c.data());
    }
  }
  void run() {
    vg::reset_call_counts();
    scheduler.run([this] { return step(); });
  }
  [[nodiscard]] bool is_right() const {
    for (std::size_t i = 0; i < layers; ++i) {
      for (std::size_t t = 0; t < 3; ++t) {
        if (!look[i][t].is(static_cast<float>(10 * i + t))) return false;
      }
    }
    return true;
  }

  ho::stream compute;
  ho::prefetch_scheduler scheduler;
  std::vector<std::unique_ptr<layer>> all;
  std::vector<std::array<seen, 3>> look = [] {
    std::vector<std::array<seen, 3>> none;
    for (std::size_t i = 0; i < layers; ++i) none.push_back({seen(n), seen(n), seen(n)});
    return none;
  }();
};

std::uint64_t batches() { return vg::calls("cudaMemcpyBatchAsync"); }
std::uint64_t singles() { return vg::calls("cudaMemcpyAsync"); }

}  // namespace

TEST_CASE("a group of small tensors is copied by one call each way, with its values") {
  gpu device;
  trainer t({});
  for (int step = 0; step < 5; ++step) {
    t.run();
    CHECK(batches() == layers + 2);
    CHECK(singles() == 0);
    CHECK(t.is_right());
    CHECK(t.scheduler.report().copies_out == 3 * layers);
    CHECK(t.scheduler.report().copies_in == 3 * 2);
  }
}

TEST_CASE("copies of the threshold and above are a call each, and so is every copy where the threshold is 0") {
  gpu device;
  trainer t({.batch_copies_below = GENERATE(std::size_t{0}, slot)});
  for (int step = 0; step < 3; ++step) {
    t.run();
    CHECK(batches() == 0);
    CHECK(singles() == 3 * layers + 3 * 2);
    CHECK(t.is_right());
  }
}

TEST_CASE("a large tensor of a group is copied by itself, its small neighbours together") {
  gpu device;
  trainer t({}, 16_KiB / sizeof(float));
  for (int step = 0; step < 3; ++step) {
    t.run();
    CHECK(batches() == layers + 2);
    CHECK(singles() == layers + 2);
    CHECK(t.is_right());
  }
}

TEST_CASE("without overlap, and in a captured step, small copies are a call each") {
  gpu device;
  SECTION("without overlap") {
    trainer t({.overlap = false});
    t.run();
    CHECK(batches() == 0);
    CHECK(t.is_right());
  }
  SECTION("captured: the launches make them") {
    trainer t({});
    for (int step = 0; step < 3; ++step) t.run();
    vg::reset_call_counts();
    auto graph = t.scheduler.capture([&] { return t.step(); });
    CHECK(batches() == 0);
    CHECK(singles() == 3 * layers + 3 * 2);
    for (int launch = 0; launch < 2; ++launch) {
      graph.launch();
      CHECK(t.is_right());
    }
    t.run();
    CHECK(batches() == layers + 2);
    CHECK(t.is_right());
  }
}

TEST_CASE("more small copies than a batch holds go in several") {
  gpu device;
  constexpr std::size_t half = 40;
  const ho::stream compute;
  ho::prefetch_scheduler scheduler(
      {.compute = compute.get(), .window = half * slot, .sample_every = 0, .observer = watched});
  std::vector<std::unique_ptr<tensor<name::a>>> all;
  for (std::size_t i = 0; i < 2 * half; ++i) {
    all.push_back(
        std::make_unique<tensor<name::a>>(scheduler, n, ho::layer_position{i, 2 * half}, ho::choice::offload));
  }
  for (int step = 0; step < 3; ++step) {
    ho::step s(scheduler);
    for (std::size_t i = 0; i < 2 * half; ++i) {
      auto out = all[i]->produce(compute.get());
      fill(compute.get(), out.data(), n, static_cast<float>(i));
    }
    {
      std::vector<decltype(all[0]->fetch(compute.get()))> held;
      for (std::size_t i = 2 * half; i-- > half;) held.push_back(std::move(*all[i]).fetch(compute.get()));
    }
    vg::reset_call_counts();
    std::vector<std::unique_ptr<seen>> values;
    for (std::size_t i = half; i-- > 0;) {
      auto in = std::move(*all[i]).fetch(compute.get());
      values.push_back(std::make_unique<seen>(compute.get(), in.data(), n));
      if (i == half - 1) {
        CHECK(batches() == 2);  // of the 39 that the first, which came too late, leaves
        CHECK(singles() == 1);
      }
    }
    s.end();
    CHECK((batches() == 2 && singles() == 1));
    for (std::size_t i = 0; i < half; ++i) CHECK(values[i]->is(static_cast<float>(half - 1 - i)));
  }
}

TEST_CASE("a batch that fails leaves the values where they are, and no slot is lost") {
  gpu device;
  trainer t({});
  t.run();
  const std::uint64_t nth = GENERATE(1U, 3U, 5U, 6U);  // of a step's six: four out, two in
  vg::reset_call_counts();
  vg::fail_call(nth, cudaErrorMemoryAllocation, "cudaMemcpyBatchAsync");
  CHECK_THROWS_AS(t.scheduler.run([&] { return t.step(); }), ho::cuda_error);
  static_cast<void>(cudaGetLastError());
  for (int step = 0; step < 3; ++step) {
    t.run();
    CHECK(batches() == layers + 2);
    CHECK(t.is_right());
  }
}
