// One tensor's life: made, put away, brought back, ended, under each placement.

#include "gpu.hpp"

#include <array>
#include <memory>
#include <vector>

using namespace ho::literals;

namespace {

enum class name { x, y, z };
using x_tensor = ho::offload_tensor<float, ho::any_placement<name::x>>;

constexpr std::size_t n = 1000;

}  // namespace

TEST_CASE("straight-line code: what was produced is fetched, under each placement") {
  gpu device;
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  ho::prefetch_scheduler scheduler({.window = 64_KiB, .observer = watched});
  x_tensor t(scheduler, n, {}, placed);
  t.define([&](std::span<float> out) { fill(nullptr, out.data(), out.size(), 5); });
  CHECK(t.placed() == placed);
  CHECK(t.name() == "x");
  for (int step = 0; step < 4; ++step) {
    ho::step s(scheduler);
    {
      auto out = t.produce(nullptr);
      REQUIRE(out.size() == n);
      fill(nullptr, out.data(), n, 5);
    }
    seen forward(n);
    seen backward(n);
    {
      auto in = t.fetch(nullptr);
      forward.look(nullptr, in.data());
    }
    {
      auto in = std::move(t).fetch(nullptr);
      backward.look(nullptr, in.data());
    }
    s.end();
    CHECK(forward.is(5));
    CHECK(backward.is(5));
  }
}

TEST_CASE("coroutines: a defined tensor is made by its first await and is the same at each later one") {
  gpu device;
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  ho::prefetch_scheduler scheduler({.window = 64_KiB, .observer = watched});
  x_tensor t(scheduler, n, {}, placed);
  int made = 0;
  t.define([&](std::span<float> out) -> ho::task<> {
    ++made;
    fill(nullptr, out.data(), out.size(), 7);
    co_return;
  });
  for (int step = 0; step < 4; ++step) {
    made = 0;
    seen forward(n);
    seen backward(n);
    const auto use = [&]() -> ho::task<int> {
      {
        auto in = co_await t;
        forward.look(nullptr, in.data());
      }
      auto in = co_await std::move(t);
      backward.look(nullptr, in.data());
      co_return 42;
    };
    CHECK(scheduler.run(use) == 42);
    CHECK(forward.is(7));
    CHECK(backward.is(7));
    CHECK(made == (placed == ho::choice::remat ? 2 : 1));
  }
}

TEST_CASE("K slots for N tensors: each is fetched with its own values") {
  const std::size_t slots = GENERATE(1U, 2U, 3U, 5U);
  const std::size_t extra = GENERATE(0U, 1U, 2U, 3U, 4U, 5U, 6U);
  const std::array<std::size_t, 7> counts{1, 2, 3, slots > 1 ? slots - 1 : 1, slots, slots + 1, 2 * slots + 1};
  const std::size_t layers = counts.at(extra);
  const bool reversed = GENERATE(true, false);
  gpu device;
  constexpr std::size_t slot_bytes = 4096;  // n floats, rounded up to 256
  ho::prefetch_scheduler scheduler({.window = slots * slot_bytes, .observer = watched});
  std::vector<std::unique_ptr<x_tensor>> tensors;
  for (std::size_t i = 0; i < layers; ++i) {
    tensors.push_back(std::make_unique<x_tensor>(scheduler, n, ho::layer_position{i, layers}, ho::choice::offload));
  }
  for (int step = 0; step < 3; ++step) {
    std::vector<std::unique_ptr<seen>> all;
    ho::step s(scheduler);
    for (std::size_t i = 0; i < layers; ++i) {
      auto out = tensors[i]->produce(nullptr);
      fill(nullptr, out.data(), n, static_cast<float>(1000 * i));
    }
    for (std::size_t j = 0; j < layers; ++j) {
      const std::size_t i = reversed ? layers - 1 - j : j;
      auto in = std::move(*tensors[i]).fetch(nullptr);
      all.push_back(std::make_unique<seen>(nullptr, in.data(), n));
    }
    s.end();
    for (std::size_t j = 0; j < layers; ++j) {
      const std::size_t i = reversed ? layers - 1 - j : j;
      INFO("layer " << i << " of " << layers << ", " << slots << " slots, step " << step);
      CHECK(all[j]->is(static_cast<float>(1000 * i)));
    }
    CHECK(scheduler.report().window_peak_bytes <= slots * slot_bytes);
  }
}

TEST_CASE("a tensor that nobody fetches is dropped at the end of the step without a copy in", "[virtual]") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 8_KiB, .observer = watched});
  x_tensor a(scheduler, n, {0, 2}, ho::choice::offload);
  x_tensor b(scheduler, n, {1, 2}, ho::choice::offload);
  for (int step = 0; step < 3; ++step) {
    ho::step s(scheduler);
    for (x_tensor* t : {&a, &b}) {
      auto out = t->produce(nullptr);
      fill(nullptr, out.data(), n, 1);
    }
    s.end();
  }
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const ho::step_report report = scheduler.report();
  CHECK(report.step == 3);
  CHECK(report.copies_in == 0);
  CHECK(report.bytes_out == 2 * n * sizeof(float));
  CHECK(vg::bytes_copied(vg::direction::to_device).copies == 0);
}

TEST_CASE("what is resident or still leaving is taken over, not fetched") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = ho::unlimited, .observer = watched});
  x_tensor t(scheduler, n, {}, ho::choice::offload);
  ho::step s(scheduler);
  {
    auto out = t.produce(nullptr);
    fill(nullptr, out.data(), n, 3);
  }
  auto in = t.fetch(nullptr);
  const seen values(nullptr, in.data(), n);
  in.end();
  s.end();
  CHECK(values.is(3));
  CHECK(scheduler.report().copies_in == 0);
  CHECK(scheduler.report().copies_out == 1);
}

TEST_CASE("a second read of an evicted tensor copies it in once more, and out only once") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4096, .observer = watched});
  x_tensor a(scheduler, n, {0, 2}, ho::choice::offload);
  x_tensor b(scheduler, n, {1, 2}, ho::choice::offload);
  ho::step s(scheduler);
  {
    auto out = a.produce(nullptr);
    fill(nullptr, out.data(), n, 10);
  }
  {
    auto out = b.produce(nullptr);
    fill(nullptr, out.data(), n, 20);
  }
  seen first(n), second(n), other(n);
  {
    auto in = a.fetch(nullptr);
    first.look(nullptr, in.data());
  }
  {
    auto in = std::move(b).fetch(nullptr);
    other.look(nullptr, in.data());
  }
  {
    auto in = a.fetch(nullptr);
    second.look(nullptr, in.data());
  }
  s.end();
  CHECK(first.is(10));
  CHECK(other.is(20));
  CHECK(second.is(10));
  CHECK(scheduler.report().copies_out == 2);
  CHECK(scheduler.report().copies_in == 3);
}

TEST_CASE("a read on a second stream is ordered behind the writer, and the memory's next user behind it") {
  gpu device;
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  ho::stream other;
  ho::prefetch_scheduler scheduler({.window = 8_KiB, .observer = watched});
  std::vector<std::unique_ptr<x_tensor>> tensors;
  for (std::size_t i = 0; i < 5; ++i) {
    tensors.push_back(std::make_unique<x_tensor>(scheduler, n, ho::layer_position{i, 5}, placed));
    const auto first = static_cast<float>(100 * i);
    tensors.back()->define([first](std::span<float> out) { fill(nullptr, out.data(), out.size(), first); });
  }
  for (int step = 0; step < 4; ++step) {
    std::vector<std::unique_ptr<seen>> forward;
    std::vector<std::unique_ptr<seen>> backward;
    const auto use = [&]() -> ho::task<> {
      for (auto& t : tensors) {
        busy(other.get(), 1e-4);
        auto in = co_await t->on(other.get());
        forward.push_back(std::make_unique<seen>(other.get(), in.data(), n));
      }
      for (std::size_t i = tensors.size(); i-- > 0;) {
        auto here = co_await *tensors[i];
        busy(other.get(), 1e-4);
        auto there = co_await std::move(*tensors[i]).on(other.get());
        backward.push_back(std::make_unique<seen>(other.get(), there.data(), n));
        backward.push_back(std::make_unique<seen>(nullptr, here.data(), n));
      }
    };
    scheduler.run(use);
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(forward[i]->is(static_cast<float>(100 * i)));
      CHECK(backward[2 * (4 - i)]->is(static_cast<float>(100 * i)));
      CHECK(backward[2 * (4 - i) + 1]->is(static_cast<float>(100 * i)));
    }
  }
}

TEST_CASE("more streams, one after the other, than are kept apart: the memory's next user is behind all") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4096, .observer = watched});
  x_tensor a(scheduler, n, {0, 2}, ho::choice::offload);
  x_tensor b(scheduler, n, {1, 2}, ho::choice::offload);
  for (int step = 0; step < 2; ++step) {
    ho::step s(scheduler);
    {
      auto out = a.produce(nullptr);
      fill(nullptr, out.data(), n, 1);
    }
    std::vector<seen> from_a;
    constexpr int streams = 40;
    for (int i = 0; i < streams; ++i) {
      const ho::stream other;  // destroyed while it is at work
      auto in = a.fetch(other.get());
      busy(other.get(), (streams - i) * 1e-4);  // the first to read is the last to end
      from_a.emplace_back(other.get(), in.data(), n);
    }
    {
      auto out = b.produce(nullptr);  // in the same slot
      fill(nullptr, out.data(), n, 2);
    }
    s.end();
    for (const seen& values : from_a) CHECK(values.is(1));
  }
}

TEST_CASE("forward only, then a full step, then forward only: all right") {
  gpu device;
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  ho::prefetch_scheduler scheduler({.window = 8_KiB, .observer = watched});
  std::vector<std::unique_ptr<x_tensor>> tensors;
  for (std::size_t i = 0; i < 4; ++i) {
    tensors.push_back(std::make_unique<x_tensor>(scheduler, n, ho::layer_position{i, 4}, placed));
    tensors.back()->define([i](std::span<float> out) { fill(nullptr, out.data(), out.size(), static_cast<float>(i)); });
  }
  for (const bool backward : {false, true, false, true, true, false}) {
    std::vector<std::unique_ptr<seen>> all;
    const auto step = [&]() -> ho::task<> {
      for (auto& t : tensors) {
        auto in = co_await *t;
        all.push_back(std::make_unique<seen>(nullptr, in.data(), n));
      }
      if (!backward) co_return;
      for (std::size_t i = 4; i-- > 0;) {
        auto in = co_await std::move(*tensors[i]);
        all.push_back(std::make_unique<seen>(nullptr, in.data(), n));
      }
    };
    scheduler.run(step);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(all[i]->is(static_cast<float>(i)));
      if (backward) CHECK(all[7 - i]->is(static_cast<float>(i)));
    }
  }
}

TEST_CASE("micro batches reuse a tensor whose life has ended, in one step") {
  gpu device;
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  ho::prefetch_scheduler scheduler({.window = 4096, .observer = watched});
  x_tensor t(scheduler, n, {}, placed);
  float batch = 0;
  t.define([&](std::span<float> out) { fill(nullptr, out.data(), out.size(), batch); });
  for (int step = 0; step < 3; ++step) {
    std::vector<std::unique_ptr<seen>> all;
    const auto train = [&]() -> ho::task<> {
      for (int micro = 0; micro < 3; ++micro) {
        batch = static_cast<float>(10 * step + micro);
        {
          auto in = co_await t;
          all.push_back(std::make_unique<seen>(nullptr, in.data(), n));
        }
        auto in = co_await std::move(t);
        all.push_back(std::make_unique<seen>(nullptr, in.data(), n));
      }
    };
    scheduler.run(train);
    for (int micro = 0; micro < 3; ++micro) {
      const auto i = static_cast<std::size_t>(2 * micro);
      CHECK(all[i]->is(static_cast<float>(10 * step + micro)));
      CHECK(all[i + 1]->is(static_cast<float>(10 * step + micro)));
    }
  }
}

TEST_CASE("a tensor without a last use holds its values to the step's end, whatever micro batch comes next") {
  gpu device;
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload);
  ho::prefetch_scheduler scheduler({.window = 64_KiB, .observer = watched});
  x_tensor x(scheduler, n, {}, placed);
  ho::offload_tensor<float, ho::any_placement<name::y>> y(scheduler, n, {}, placed);
  float input = 0;
  x.define([&](std::span<float> out) { fill(nullptr, out.data(), out.size(), input); });
  y.define([&](std::span<float> out) {
    auto in = x.fetch(nullptr);
    add(nullptr, in.data(), in.data(), out.data(), out.size());
  });
  const auto y_of = [&](float of_batch) {
    input = of_batch;
    auto out = std::move(y).fetch(nullptr);
    return std::make_unique<seen>(nullptr, out.data(), out.size());
  };
  {
    ho::step s(scheduler);
    const auto one = y_of(1);
    const auto two = y_of(5);
    s.end();
    CHECK(one->values()[0] == 2);
    CHECK(two->values()[0] == 2);  // of the first batch
  }
  {
    ho::step s(scheduler);
    const auto one = y_of(1);
    { auto last = std::move(x).fetch(nullptr); }
    const auto two = y_of(5);
    s.end();
    CHECK(one->values()[0] == 2);
    CHECK(two->values()[0] == 10);
  }
  for (const float batch : {1.0F, 5.0F}) {
    ho::step s(scheduler);
    const auto made = y_of(batch);
    s.end();
    CHECK(made->values()[0] == 2 * batch);
  }
}

TEST_CASE("memory is flat over a thousand steps", "[virtual]") {
  gpu device;
  vg::record_timeline(false);
  ho::prefetch_scheduler scheduler({.window = 12_KiB, .observer = watched});
  std::vector<std::unique_ptr<x_tensor>> tensors;
  constexpr std::array placements{ho::choice::save, ho::choice::offload, ho::choice::remat};
  for (std::size_t i = 0; i < 9; ++i) {
    tensors.push_back(std::make_unique<x_tensor>(scheduler, 64, ho::layer_position{i, 9}, placements.at(i % 3)));
    tensors.back()->define([i](std::span<float> out) { fill(nullptr, out.data(), out.size(), static_cast<float>(i)); });
  }
  vg::memory_use after_two{};
  for (int step = 1; step <= 1000; ++step) {
    const auto train = [&]() -> ho::task<> {
      for (auto& t : tensors) auto in = co_await *t;
      for (std::size_t i = tensors.size(); i-- > 0;) auto in = co_await std::move(*tensors[i]);
    };
    scheduler.run(train);
    if (step == 2) after_two = vg::memory_usage();
  }
  const vg::memory_use at_end = vg::memory_usage();
  CHECK(at_end.device_peak == after_two.device_peak);
  CHECK(at_end.pinned_peak == after_two.pinned_peak);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(scheduler.report().step == 1000);
}

TEST_CASE("a slot's next writer waits for its reader of the step before, however many points came between") {
  gpu device;
  const std::size_t reads = GENERATE(1U, 15U, 16U, 17U, 18U, 33U);
  INFO(reads << " reads in between");
  const ho::stream compute, other;
  ho::prefetch_scheduler scheduler({.compute = compute.get(), .window = 64_KiB, .observer = watched});
  x_tensor a(scheduler, 1000, {0, 2}, ho::choice::offload);
  x_tensor b(scheduler, 1000, {1, 2}, ho::choice::offload);
  for (x_tensor* t : {&a, &b}) {
    t->define([&](std::span<float> out) { fill(compute.get(), out.data(), out.size(), 1); });
  }
  std::vector<std::unique_ptr<seen>> all;
  const auto read = [&](x_tensor& t) {
    auto in = std::move(t).fetch(other.get());
    all.push_back(std::make_unique<seen>(other.get(), in.data(), 1000));
  };
  {
    ho::step s(scheduler);
    busy(other.get(), 1e-3);
    read(a);
    s.end();
  }
  {
    ho::step s(scheduler);
    {
      auto out = b.produce(compute.get());
      fill(compute.get(), out.data(), out.size(), 1);
    }
    for (std::size_t i = 0; i < reads; ++i) {
      auto in = b.fetch(other.get());
      all.push_back(std::make_unique<seen>(other.get(), in.data(), 1000));
    }
    auto out = a.produce(compute.get());
    fill(compute.get(), out.data(), out.size(), 1);
    out.end();
    s.end();
  }
  for (const auto& each : all) CHECK(each->is(1));
}
