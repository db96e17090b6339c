// Tensors whose size is known only within a step: what is leased, taken of the window and copied is what was used.

#include "gpu.hpp"

#include <algorithm>
#include <vector>

using namespace ho::literals;

namespace {

enum class name { x, y };
template <name Name>
using tensor = ho::offload_tensor<float, ho::any_placement<Name>>;

constexpr std::size_t most = 4096;
constexpr std::size_t element = sizeof(float);

/// Of the last completed step.
ho::step_report report_of(const ho::prefetch_scheduler& scheduler) {
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  return scheduler.report();
}

}  // namespace

TEST_CASE("a tensor resized before it is made takes, leases and copies so many elements, in each step others") {
  gpu device;
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  const std::size_t window = 2 * most * element;
  ho::prefetch_scheduler scheduler({.window = window, .observer = watched});
  tensor<name::x> x(scheduler, most, {}, placed);
  tensor<name::y> y(scheduler, most, {}, ho::choice::offload);  // makes x leave the window
  std::vector<std::size_t> spans;
  x.define([&](std::span<float> out) {
    spans.push_back(out.size());
    fill(nullptr, out.data(), out.size(), 3);
  });
  y.define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 9); });
  for (const std::size_t n : {std::size_t{100}, most, std::size_t{1}, std::size_t{1000}}) {
    spans.clear();
    seen backward(n);
    const auto step = [&]() -> ho::task<> {
      x.resize(n);
      {
        auto in = co_await x;
        CHECK(in.size() == n);
      }
      {
        auto other = co_await y;
        CHECK(other.size() == most);
      }
      auto last = co_await std::move(y);
      last.end();
      auto in = co_await std::move(x);
      CHECK(in.size() == n);
      backward.look(nullptr, in.data());
    };
    scheduler.run(step);
    CHECK(backward.is(3));
    const ho::step_report r = report_of(scheduler);
    CHECK(r.bytes_out == (most + (placed == ho::choice::offload ? n : 0)) * element);
    CHECK(r.host_peak_bytes <= 2 * most * element);
    for (const std::size_t each : spans) CHECK(each == n);
    CHECK(x.elements() == most);
  }
}

TEST_CASE("a tensor that its define function shrinks is stowed and fetched at that size") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = (most + 2 * 64) * element, .observer = watched});
  tensor<name::x> x(scheduler, most, {}, ho::choice::offload);
  tensor<name::y> y(scheduler, most, {}, ho::choice::offload);
  std::size_t used = 0;
  x.define([&](std::span<float> out) {
    CHECK(out.size() == most);
    x.resize(used);
    fill(nullptr, out.data(), used, 3);
  });
  y.define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 9); });
  for (const std::size_t n : {std::size_t{64}, std::size_t{1}, std::size_t{7}}) {
    used = n;
    seen backward(n);
    const auto step = [&]() -> ho::task<> {
      {
        auto in = co_await x;
        CHECK(in.size() == n);
      }
      {
        auto other = co_await y;  // takes the slot of x, which comes back to a smaller one
      }
      auto in = co_await std::move(x);
      CHECK(in.size() == n);
      backward.look(nullptr, in.data());
    };
    scheduler.run(step);
    CHECK(backward.is(3));
    const ho::step_report r = report_of(scheduler);
    CHECK(r.bytes_out == (most + n) * element);
    CHECK(r.bytes_in == n * element);
  }
}

TEST_CASE("a smaller tensor needs a smaller window") {
  gpu device;
  constexpr std::size_t n = 256;
  ho::prefetch_scheduler scheduler({.window = n * element, .observer = watched});
  tensor<name::x> x(scheduler, most, {}, ho::choice::offload);
  x.define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 1); });
  const auto step = [&]() -> ho::task<> {
    x.resize(n);
    auto in = co_await x;
  };
  scheduler.run(step);
  CHECK(report_of(scheduler).least_window_bytes == n * element);
  const auto full = [&]() -> ho::task<> { auto in = co_await x; };
  CHECK_THROWS_AS(scheduler.run(full), ho::window_error);  // the size held for one life
}

TEST_CASE("a size that was given and not used is forgotten with its step") {
  gpu device;
  ho::prefetch_scheduler scheduler({.observer = watched});
  tensor<name::x> x(scheduler, most, {}, ho::choice::save);
  x.define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 1); });
  const bool thrown = GENERATE(false, true);
  const auto unused = [&]() -> ho::task<> {
    x.resize(10);
    if (thrown) throw std::string("left");
    co_return;
  };
  try {
    scheduler.run(unused);
  } catch (const std::string&) {
    CHECK(thrown);
  }
  const auto step = [&]() -> ho::task<> {
    auto in = co_await x;
    CHECK(in.size() == most);
  };
  scheduler.run(step);
}

TEST_CASE("a size is left to the life it was given for, though a recomputation makes the tensor before that") {
  const gpu device;
  ho::prefetch_scheduler scheduler({.observer = watched});
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  const std::size_t shrunk = GENERATE(as<std::size_t>{}, most, 50U);  // by the define function
  tensor<name::x> x(scheduler, most, {}, placed);
  tensor<name::y> y(scheduler, most, {}, ho::choice::remat);
  std::vector<std::size_t> spans;
  x.define([&](std::span<float> out) {
    spans.push_back(out.size());
    if (shrunk < out.size()) x.resize(shrunk);
    fill(nullptr, out.data(), std::min(out.size(), shrunk), 3);
  });
  y.define([&](std::span<float> out) {
    const auto in = x.fetch(nullptr);
    fill(nullptr, out.data(), out.size(), 4);
  });
  const bool produced = GENERATE(false, true);
  const auto step = [&] {
    ho::step s(scheduler);
    { const auto first = y.fetch(nullptr); }
    { const auto last = std::move(x).fetch(nullptr); }
    x.resize(100);
    spans.clear();
    { const auto again = std::move(y).fetch(nullptr); }
    CHECK(spans == std::vector<std::size_t>{100});
    if (produced) {
      auto next = x.produce(nullptr);
      CHECK(next.size() == 100);
      fill(nullptr, next.data(), next.size(), 3);
    } else {
      const auto next = x.fetch(nullptr);
      CHECK(next.size() == std::min<std::size_t>(100, shrunk));
    }
    s.end();
  };
  step();
  step();
}

TEST_CASE("where a define function fails, its tensor is made anew as if it had not run") {
  const gpu device;
  ho::prefetch_scheduler scheduler({.observer = watched});
  tensor<name::x> x(scheduler, most, {}, ho::choice::offload);
  tensor<name::y> y(scheduler, most, {}, ho::choice::remat);
  bool fails = false;
  std::size_t size = 0;
  x.define([&](std::span<float> out) {
    size = out.size();
    x.resize(60);
    fill(nullptr, out.data(), 60, 3);
    if (fails) throw std::string("left");
  });
  y.define([&](std::span<float> out) {
    const auto in = x.fetch(nullptr);
    fill(nullptr, out.data(), out.size(), 4);
  });
  ho::step s(scheduler);
  { const auto first = y.fetch(nullptr); }
  { const auto last = std::move(x).fetch(nullptr); }
  fails = true;
  CHECK_THROWS_AS(y.fetch(nullptr), std::string);  // recomputed: x would have a life for that alone
  fails = false;
  {
    auto room = x.produce(nullptr);
    CHECK(room.size() == most);
    fill(nullptr, room.data(), room.size(), 3);
  }
  {
    const auto still = x.fetch(nullptr);  // what was produced is there: it is not made
    CHECK(still.size() == most);
  }
  s.end();
}

TEST_CASE("resize says what is wrong") {
  gpu device;
  ho::prefetch_scheduler scheduler({.observer = watched});
  tensor<name::x> x(scheduler, 100, {2, 5}, ho::choice::save);
  x.define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 1); });
  CHECK_THROWS_WITH(x.resize(10), "tensor x[2]: is resized outside a step: a size holds for one life");
  const auto step = [&]() -> ho::task<> {
    CHECK_THROWS_WITH(x.resize(0), has_text("tensor x[2]: is resized to 0 bytes"));
    CHECK_THROWS_WITH(x.resize(101), has_text("at most the 400 bytes that it was built for"));
    auto in = co_await x;
    CHECK_THROWS_WITH(x.resize(10), has_text("when it has its room"));
  };
  scheduler.run(step);
}

TEST_CASE("a tensor that is made again has to be as large as it was") {
  const gpu device;
  ho::prefetch_scheduler scheduler({.observer = watched});
  tensor<name::x> x(scheduler, 100, {2, 5}, ho::choice::remat);
  std::size_t times = 0;
  x.define([&](std::span<float> out) {
    x.resize(60 - 10 * times++);
    fill(nullptr, out.data(), out.size(), 1);
  });
  const auto step = [&]() -> ho::task<> {
    {
      auto first = co_await x;
      CHECK(first.size() == 60);
    }
    auto again = co_await x;
  };
  CHECK_THROWS_WITH(scheduler.run(step), has_text("tensor x[2]: is made again with another size than before"));
  times = 0;
  const auto forward = [&]() -> ho::task<> {
    auto values = co_await std::move(x);
    CHECK(values.size() == 60);
  };
  scheduler.run(forward);
}
