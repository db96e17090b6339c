// Several coroutines at once, several schedulers, several threads.

#include "gpu.hpp"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

using namespace ho::literals;

namespace {

enum class name { x, y };
using tensor = ho::offload_tensor<float, ho::any_placement<name::x>>;

constexpr std::size_t n = 1024;  // 4 KiB
constexpr std::size_t slot = n * sizeof(float);

std::unique_ptr<tensor> make_tensor(ho::prefetch_scheduler& scheduler, std::size_t i, cudaStream_t stream = nullptr) {
  auto t = std::make_unique<tensor>(scheduler, n, ho::layer_position{i, 100}, ho::choice::offload);
  t->define([i, stream](std::span<float> out) { fill(stream, out.data(), out.size(), static_cast<float>(100 * i)); });
  return t;
}

/// Holds two of its tensors at one time, all the way.
ho::task<> use_pairs(std::vector<std::unique_ptr<tensor>>& tensors, std::vector<std::unique_ptr<seen>>& all) {
  for (std::size_t i = 0; i + 1 < tensors.size(); ++i) {
    auto a = co_await *tensors[i];
    auto b = co_await *tensors[i + 1];
    all.push_back(std::make_unique<seen>(nullptr, a.data(), n));
    all.push_back(std::make_unique<seen>(nullptr, b.data(), n));
  }
}

}  // namespace

TEST_CASE("a window that serves no coroutine alone is an error that lists who holds it") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = slot, .observer = watched});
  std::vector<std::unique_ptr<tensor>> tensors;
  for (std::size_t i = 0; i < 2; ++i) tensors.push_back(make_tensor(scheduler, i));
  std::vector<std::unique_ptr<seen>> all;
  const auto train = [&]() -> ho::task<> { co_await ho::when_all(use_pairs(tensors, all), use_pairs(tensors, all)); };
  CHECK_THROWS_WITH(scheduler.run(train),
                    has_text("needs 4096 bytes while these are in use: x[0] 4096; a window of at least 8192"));
}

TEST_CASE("two coroutines await a tensor that one of them makes: it is made once") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 64_KiB, .observer = watched});
  auto input = make_tensor(scheduler, 1);
  tensor shared(scheduler, n, {2, 100}, ho::choice::offload);
  int made = 0;
  shared.define([&](std::span<float> out) -> ho::task<> {
    ++made;
    auto in = co_await *input;
    add(nullptr, in.data(), in.data(), out.data(), out.size());
  });
  std::vector<std::unique_ptr<seen>> all;
  const auto use = [&]() -> ho::task<> {
    auto in = co_await shared;
    all.push_back(std::make_unique<seen>(nullptr, in.data(), n));
  };
  const auto train = [&]() -> ho::task<> { co_await ho::when_all(use(), use(), use()); };
  scheduler.run(train);
  CHECK(made == 1);
  REQUIRE(all.size() == 3);
  for (const auto& s : all) CHECK(s->values()[1] == 202);
}

TEST_CASE("a failure in one of several coroutines fails the step once all have ended, and the next step is right") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4 * slot, .observer = watched});
  std::vector<std::unique_ptr<tensor>> tensors;
  for (std::size_t i = 0; i < 4; ++i) tensors.push_back(make_tensor(scheduler, i));
  std::vector<std::unique_ptr<seen>> all;
  const auto fails = [&]() -> ho::task<> {
    auto in = co_await *tensors[0];
    throw std::runtime_error("in the middle");
  };
  const auto broken = [&]() -> ho::task<> { co_await ho::when_all(use_pairs(tensors, all), fails()); };
  CHECK_THROWS_WITH(scheduler.run(broken), "in the middle");
  all.clear();
  const auto train = [&]() -> ho::task<> { co_await ho::when_all(use_pairs(tensors, all), use_pairs(tensors, all)); };
  scheduler.run(train);
  REQUIRE(all.size() == 12);
  CHECK(all[0]->is(0));
  CHECK(all.back()->is(300));
}

TEST_CASE("host values: other coroutines go on, and the host waits once per read") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 64_KiB, .observer = watched});
  ho::host_values<float> counts(scheduler, 8);
  std::vector<std::unique_ptr<tensor>> tensors;
  for (std::size_t i = 0; i < 4; ++i) tensors.push_back(make_tensor(scheduler, i));
  std::vector<std::unique_ptr<seen>> all;
  std::string log;
  float sum = 0;
  const auto reads = [&]() -> ho::task<> {
    auto in = co_await *tensors[3];
    log += "ask ";
    auto values = co_await counts.read(in.data(), 8, nullptr);
    log += "have";
    for (const float v : values) sum += v;
  };
  const auto works = [&]() -> ho::task<> {
    co_await use_pairs(tensors, all);
    log += "others ";
  };
  const auto train = [&]() -> ho::task<> { co_await ho::when_all(reads(), works()); };
  for (int step = 0; step < 4; ++step) {  // while it is not known what one needs, they run one after the other
    log.clear();
    sum = 0;
    scheduler.run(train);
    CHECK(log == (step < 2 ? "ask haveothers " : "ask others have"));
    CHECK(sum == 8 * 300 + 28);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(scheduler.report().host_waits == 1);
  }
  CHECK_THROWS_WITH(counts.read(nullptr, 9, nullptr), has_text("built for 8 elements, 9 are read"));
}

TEST_CASE("two schedulers on one device, each with its own streams") {
  gpu device;
  ho::stream one, two;
  ho::prefetch_scheduler a({.compute = one.get(), .window = 2 * slot, .observer = watched});
  ho::prefetch_scheduler b({.compute = two.get(), .window = 2 * slot, .observer = watched});
  std::vector<std::unique_ptr<tensor>> in_a, in_b;
  for (std::size_t i = 0; i < 5; ++i) {
    in_a.push_back(make_tensor(a, i, one.get()));
    in_b.push_back(make_tensor(b, 50 + i, two.get()));
  }
  for (int step = 0; step < 3; ++step) {
    std::vector<std::unique_ptr<seen>> all;
    const auto pass = [&](std::vector<std::unique_ptr<tensor>>& tensors, cudaStream_t stream) -> ho::task<> {
      for (auto& t : tensors) auto in = co_await *t;
      for (std::size_t i = tensors.size(); i-- > 0;) {
        auto in = co_await std::move(*tensors[i]);
        all.push_back(std::make_unique<seen>(stream, in.data(), n));
      }
    };
    a.run([&] { return pass(in_a, one.get()); });
    b.run([&] { return pass(in_b, two.get()); });
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(all[i]->is(static_cast<float>(100 * (4 - i))));
      CHECK(all[5 + i]->is(static_cast<float>(100 * (54 - i))));
    }
  }
}

TEST_CASE("schedulers on several threads") {
  gpu device;
  std::vector<std::thread> threads;
  std::vector<int> right(4);
  for (std::size_t id = 0; id < right.size(); ++id) {
    threads.emplace_back([id, &right] {
      const ho::stream compute;
      ho::prefetch_scheduler scheduler({.compute = compute.get(), .window = 2 * slot, .observer = watched});
      std::vector<std::unique_ptr<tensor>> tensors;
      for (std::size_t i = 0; i < 5; ++i) tensors.push_back(make_tensor(scheduler, 10 * id + i, compute.get()));
      std::vector<kernel_memory> values;
      for (std::size_t i = 0; i < 5; ++i) values.push_back(memory_for_kernels(n));
      for (int step = 0; step < 10; ++step) {
        const auto pass = [&]() -> ho::task<> {
          for (auto& t : tensors) auto in = co_await *t;
          for (std::size_t i = tensors.size(); i-- > 0;) {
            auto in = co_await std::move(*tensors[i]);
            copy_out(compute.get(), in.data(), values[i], n);
          }
        };
        scheduler.run(pass);
        if (cudaStreamSynchronize(compute.get()) != cudaSuccess) return;
        for (std::size_t i = 0; i < 5; ++i)
          right[id] += values[i][7] == static_cast<float>(100 * (10 * id + i) + 7) ? 1 : 0;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(right == std::vector<int>(4, 50));
}

TEST_CASE("a window too small is a window_error also when an older coroutine waits for what is being made") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 2304, .observer = watched});
  tensor big(scheduler, 1693, {0, 3}, ho::choice::offload);
  tensor small(scheduler, 2, {1, 3}, ho::choice::offload);
  tensor middle(scheduler, 175, {2, 3}, ho::choice::remat);
  const auto make = [](std::span<float> out) -> ho::task<> {
    fill(nullptr, out.data(), out.size(), 1);
    co_return;
  };
  big.define(make);
  small.define(make);
  middle.define([&](std::span<float> out) -> ho::task<> {
    auto in = co_await big;
    fill(nullptr, out.data(), out.size(), 2);
  });
  const auto use = [](tensor& t) -> ho::task<> { auto all = co_await t; };
  const auto older = [&]() -> ho::task<> {
    { auto first = co_await small; }
    auto all = co_await middle;
  };
  for (int step = 0; step < 6; ++step) {
    INFO("step " << step);
    const auto several = [&]() -> ho::task<> { co_await ho::when_all(older(), use(middle), use(middle)); };
    CHECK_THROWS_AS(scheduler.run(several), ho::window_error);
    const auto two = [&]() -> ho::task<> { co_await ho::when_all(use(small), use(big)); };
    CHECK_THROWS_AS(scheduler.run(two), ho::window_error);
  }
}
