// What a steady step costs the host: no allocation of any kind, no synchronisation, no event query, few event calls.

#include "gpu.hpp"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

using namespace ho::literals;

namespace {
std::atomic<long> allocations{0};  // outside of the virtual GPU
}

// The sanitizers have an operator new of their own; under them only the calls are counted.
#if defined(__has_feature)
#define HOSTOFFLOAD_TEST_SANITIZED (__has_feature(thread_sanitizer) || __has_feature(address_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HOSTOFFLOAD_TEST_SANITIZED 1
#else
#define HOSTOFFLOAD_TEST_SANITIZED 0
#endif

#if !HOSTOFFLOAD_TEST_SANITIZED
void* operator new(std::size_t bytes) {
  if (!vg::inside()) ++allocations;
  if (void* const p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

namespace {

enum class name { input, q, k, v, gate, up, act };
using table =
    ho::placement<name, ho::save_these<name::input>, ho::offload_these<name::q, name::k, name::v, name::gate, name::up>,
                  ho::remat_these<name::act>>;

struct layer {
  layer(ho::prefetch_scheduler& scheduler, ho::layer_position at, std::unique_ptr<layer>* previous)
      : input(scheduler, 64, at),
        q(scheduler, 64, at),
        k(scheduler, 64, at),
        v(scheduler, 64, at),
        gate(scheduler, 256, at),
        up(scheduler, 256, at),
        act(scheduler, 256, at) {
    input.define([previous](std::span<float> out) -> ho::task<> {
      if (previous == nullptr) {
        fill(nullptr, out.data(), out.size(), 1);
        co_return;
      }
      auto act_before = co_await (*previous)->act;
      add(nullptr, act_before.data(), act_before.data(), out.data(), out.size());
    });
    const auto make = [this](std::span<float> a, std::span<float> b, std::span<float> c) -> ho::task<> {
      auto in = co_await input;
      for (float* out : {a.data(), b.data(), c.data()}) add(nullptr, in.data(), in.data(), out, a.size());
    };
    ho::define_group(make, q, k, v);
    for (auto define_one : {0, 1}) {
      const auto make_one = [this](std::span<float> out) -> ho::task<> {
        auto a = co_await q;
        auto b = co_await k;
        auto c = co_await v;
        fill(nullptr, out.data(), out.size(), 2);
        add(nullptr, a.data(), c.data(), out.data(), 64);
      };
      if (define_one == 0) {
        gate.define(make_one);
      } else {
        up.define(make_one);
      }
    }
    act.define([this](std::span<float> out) -> ho::task<> {
      auto a = co_await gate;
      auto b = co_await up;
      add(nullptr, a.data(), b.data(), out.data(), out.size());
    });
  }

  ho::offload_tensor<float, table::of<name::input>> input;
  ho::offload_tensor<float, table::of<name::q>> q;
  ho::offload_tensor<float, table::of<name::k>> k;
  ho::offload_tensor<float, table::of<name::v>> v;
  ho::offload_tensor<float, table::of<name::gate>> gate;
  ho::offload_tensor<float, table::of<name::up>> up;
  ho::offload_tensor<float, table::of<name::act>> act;
};

/// The kernels take longer than the host, so that a step's times are those of the device.
ho::task<> train(std::vector<std::unique_ptr<layer>>& layers) {
  constexpr double layer_s = 2e-4;
  for (auto& l : layers) {
    auto in = co_await l->input;
    auto act = co_await l->act;
    busy(nullptr, layer_s);
  }
  for (std::size_t i = layers.size(); i-- > 0;) {
    layer& l = *layers[i];
    busy(nullptr, layer_s);
    {
      auto act = co_await std::move(l.act);
      auto gate = co_await std::move(l.gate);
      auto up = co_await std::move(l.up);
    }
    auto q = co_await std::move(l.q);
    auto k = co_await std::move(l.k);
    auto v = co_await std::move(l.v);
    auto in = co_await std::move(l.input);
  }
}

std::uint64_t calls(std::initializer_list<std::string_view> functions) {
  std::uint64_t sum = 0;
  for (const std::string_view f : functions) sum += vg::calls(f);
  return sum;
}

}  // namespace

TEST_CASE("a steady step allocates nothing, synchronises nothing, asks nothing") {
  gpu device;
  const bool overlap = GENERATE(true, false);
  ho::prefetch_scheduler scheduler({.window = 12_KiB, .overlap = overlap, .sample_every = 0, .observer = watched});
  std::vector<std::unique_ptr<layer>> layers(6);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i] =
        std::make_unique<layer>(scheduler, ho::layer_position{i, layers.size()}, i == 0 ? nullptr : &layers[i - 1]);
  }
  const auto begin = [&] { return train(layers); };
  for (int step = 0; step < 3; ++step) scheduler.run(begin);
  for (int step = 3; step < 8; ++step) {
    vg::reset_call_counts();
    const long before = allocations;
    scheduler.run(begin);
    CHECK(allocations - before == 0);
    CHECK(calls({"cudaMalloc", "cudaFree", "cudaMallocAsync", "cudaFreeAsync", "cudaHostAlloc", "cudaMallocHost",
                 "cudaFreeHost", "cudaHostRegister", "cudaHostUnregister", "cudaEventCreate",
                 "cudaEventCreateWithFlags", "cudaEventDestroy", "cudaStreamCreate", "cudaStreamCreateWithPriority"}) ==
          0);
    CHECK(calls({"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy"}) == 0);
    CHECK(calls({"cudaEventQuery", "cudaStreamQuery", "cudaEventElapsedTime"}) == 0);
  }
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const ho::step_report report = scheduler.report();
  CHECK(report.copies_out == 30);
  CHECK(report.copies_in > 0);
  CHECK(report.copies_in <= 30);
}

TEST_CASE("a steady step that follows a plan allocates nothing, synchronises nothing, asks nothing") {
  gpu device;
  // The third step is timed and, to see both directions of the link at once, the first planned one; no other is.
  ho::prefetch_scheduler scheduler({.window = 32_KiB, .sample_every = 1000, .plan = true, .observer = watched});
  std::vector<std::unique_ptr<layer>> layers(6);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i] =
        std::make_unique<layer>(scheduler, ho::layer_position{i, layers.size()}, i == 0 ? nullptr : &layers[i - 1]);
  }
  const auto begin = [&] { return train(layers); };
  for (int step = 1; step <= 14; ++step) {  // some of the first planned ones are compared with those before
    scheduler.run(begin);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  REQUIRE(scheduler.report().planned);
  for (int step = 15; step <= 20; ++step) {
    vg::reset_call_counts();
    const long before = allocations;
    scheduler.run(begin);
    CHECK(allocations - before == 0);
    CHECK(calls({"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost", "cudaEventCreateWithFlags",
                 "cudaEventDestroy"}) == 0);
    CHECK(calls({"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaEventQuery",
                 "cudaStreamQuery", "cudaEventElapsedTime"}) == 0);
  }
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(scheduler.report().planned);
}

TEST_CASE("steps that are timed, one after the other, allocate nothing once they repeat") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 32_KiB, .sample_every = 1, .plan = true, .observer = watched});
  std::vector<std::unique_ptr<layer>> layers(6);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i] =
        std::make_unique<layer>(scheduler, ho::layer_position{i, layers.size()}, i == 0 ? nullptr : &layers[i - 1]);
  }
  const auto begin = [&] { return train(layers); };
  for (int step = 1; step <= 14; ++step) {
    scheduler.run(begin);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  REQUIRE(scheduler.record());
  for (int step = 15; step <= 24; ++step) {
    vg::reset_call_counts();
    const long before = allocations;
    scheduler.run(begin);
    CHECK(allocations - before == 0);
    CHECK(calls({"cudaMalloc", "cudaHostAlloc", "cudaEventCreateWithFlags", "cudaDeviceSynchronize",
                 "cudaStreamSynchronize", "cudaEventSynchronize"}) == 0);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
}

TEST_CASE("an offloaded tensor costs one copy and at most six event calls each way") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 12_KiB, .sample_every = 0, .observer = watched});
  std::vector<std::unique_ptr<layer>> layers(6);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i] =
        std::make_unique<layer>(scheduler, ho::layer_position{i, layers.size()}, i == 0 ? nullptr : &layers[i - 1]);
  }
  const auto begin = [&] { return train(layers); };
  for (int step = 0; step < 4; ++step) {
    vg::reset_call_counts();
    scheduler.run(begin);
  }
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const ho::step_report report = scheduler.report();
  CHECK(vg::bytes_copied(vg::direction::to_host).copies == report.copies_out);
  CHECK(vg::bytes_copied(vg::direction::to_device).copies == report.copies_in);
  CHECK(report.copies_in <= report.copies_out);
  const std::uint64_t events = calls({"cudaEventRecord", "cudaStreamWaitEvent"});
  CHECK(events <= 6 * (report.copies_out + report.copies_in) + 1);  // and one that ends the step
}

TEST_CASE("tensors that are saved or rematerialised cost no event call, no copy and no pinned memory") {
  gpu device;
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::remat);
  ho::prefetch_scheduler scheduler({.window = 0, .sample_every = 0, .observer = watched});
  ho::offload_tensor<float, ho::any_placement<name::q>> t(scheduler, 100, {}, placed);
  t.define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 1); });
  const auto begin = [&]() -> ho::task<> {
    { auto in = co_await t; }
    auto in = co_await std::move(t);
  };
  for (int step = 0; step < 3; ++step) {
    vg::reset_call_counts();
    scheduler.run(begin);
  }
  CHECK(vg::calls("cudaEventRecord") == 1);  // the end of the step
  CHECK(calls({"cudaStreamWaitEvent", "cudaMemcpyAsync", "cudaHostAlloc"}) == 0);
}

TEST_CASE("slots that two tensors of one size take in turns, step by step: each step waits for what it reuses") {
  const gpu g;
  const ho::stream compute;
  constexpr std::size_t n = 401;
  ho::prefetch_scheduler scheduler({.compute = compute.get(), .sample_every = 0, .observer = watched});
  ho::offload_tensor<float, ho::offload> made(scheduler, n);
  ho::offload_tensor<float, ho::remat> again(scheduler, n);
  again.define([&](std::span<float> out) { fill(compute.get(), out.data(), out.size(), 1000); });
  std::vector<std::unique_ptr<seen>> all;
  for (int i = 0; i < 24; ++i) {
    ho::step step(scheduler);
    {
      auto lease = made.produce(compute.get());
      fill(compute.get(), lease.data(), n, static_cast<float>(i));
    }
    again.fetch(compute.get()).end();
    std::move(again).fetch(compute.get()).end();
    auto lease = std::move(made).fetch(compute.get());
    all.push_back(std::make_unique<seen>(compute.get(), lease.data(), n));
    lease.end();
    step.end();
  }
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i]->is(static_cast<float>(i)));
}

TEST_CASE("a step is repeated from one whose beginning was looked at, however long that takes") {
  const gpu g;
  const ho::stream compute;
  ho::prefetch_scheduler scheduler({.compute = compute.get(), .sample_every = 0, .observer = watched});
  ho::offload_tensor<float, ho::save> t(scheduler, 100);
  t.define([&](std::span<float> out) { fill(compute.get(), out.data(), out.size(), 1); });
  const auto run = [&](bool one_after_the_other) {
    ho::step step(scheduler);
    auto first = t.fetch(compute.get());
    if (one_after_the_other) first.end();
    auto second = std::move(t).fetch(compute.get());
    first.end();
    second.end();
    step.end();
  };
  for (int i = 0; i < 17; ++i) run(i % 2 != 0);
  for (int i = 0; i < 24; ++i) run(false);
  CHECK_NOTHROW(run(true));
  CHECK_NOTHROW(run(false));
}

TEST_CASE("a step that changes for good is repeated as it is then, though it begins as before") {
  const gpu g;
  const ho::stream compute;
  ho::prefetch_scheduler scheduler({.compute = compute.get(), .sample_every = 0, .observer = watched});
  ho::offload_tensor<float, ho::save> t(scheduler, 100);
  t.define([&](std::span<float> out) { fill(compute.get(), out.data(), out.size(), 1); });
  const auto repeated = [&](int steps, bool twice) {
    for (int i = 0; i < steps; ++i) {
      ho::step step(scheduler);
      auto first = t.fetch(compute.get());
      if (twice) t.fetch(compute.get()).end();
      first.end();
      step.end();
    }
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    return scheduler.report().repeated;
  };
  CHECK(repeated(20, false));
  CHECK_FALSE(repeated(1, true));
  CHECK(repeated(1, false));  // once is not for good
  CHECK(repeated(20, true));
  CHECK(repeated(20, false));
}

TEST_CASE("a stream that is given another one's place outside of a step is not taken for it in a repeated one") {
  const gpu g;
  const ho::stream compute;
  std::vector<ho::stream> others(6);  // one more than have a place
  ho::prefetch_scheduler scheduler({.compute = compute.get(), .sample_every = 0, .observer = watched});
  ho::offload_tensor<float, ho::save> t(scheduler, 100);
  t.define([&](std::span<float> out) { fill(compute.get(), out.data(), out.size(), 1); });
  std::vector<std::unique_ptr<seen>> all;
  const auto run = [&](cudaStream_t on) {
    ho::step step(scheduler);
    auto lease = std::move(t).fetch(on);
    all.push_back(std::make_unique<seen>(on, lease.data(), 100));
    lease.end();
    step.end();
  };
  for (int i = 0; i < 20; ++i) run(others[0].get());
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(scheduler.report().repeated);
  for (std::size_t i = 1; i < others.size(); ++i) CHECK_THROWS_AS(t.fetch(others[i].get()), ho::usage_error);
  run(others.back().get());
  for (const auto& one : all) CHECK(one->is(1));
}
