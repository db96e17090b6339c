// Faults that users of other offload libraries have met, each by a program that would show it: wrong data, and what
// happens without a word. The table in tests/README.md lists all faults, and which edit of the library makes each test
// fail.

#include "faults.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

using namespace ho::literals;
using namespace faults;

namespace {

std::uint64_t id_of(cudaStream_t stream) {
  unsigned long long id = 0;
  REQUIRE(cudaStreamGetId(stream, &id) == cudaSuccess);
  return id;
}

}  // namespace

TEST_CASE("a tensor is destroyed right after it was stowed: who gets its memory goes behind the copy out") {
  gpu device;
  vg::delay(to_host, 1e-3);
  ho::prefetch_scheduler scheduler({.window = slot, .observer = watched});
  auto gone = offloaded(scheduler);
  const auto next = offloaded(scheduler);
  ho::step s(scheduler);
  produce(*gone, 1);
  gone.reset();
  produce(*next, 2);
  auto in = next->fetch(nullptr);
  const seen values(nullptr, in.data(), n);
  in.end();
  s.end();
  CHECK(values.is(2));
}

TEST_CASE("a tensor is destroyed while its copy in is under way: who gets its host memory goes behind it") {
  gpu device;
  const ho::stream other;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .observer = watched});
  auto gone = offloaded(scheduler);
  const auto b = offloaded(scheduler);
  const auto c = offloaded(scheduler);
  std::optional<seen> from_gone;
  {
    ho::step s(scheduler);
    produce(*gone, 1);
    produce(*b, 2);
    produce(*c, 3);
    vg::delay(to_device, 1e-3);
    {
      auto in = gone->fetch(other.get());  // so that only this stream is behind the copy in
      from_gone.emplace(other.get(), in.data(), n);
    }
    { auto in = std::move(*c).fetch(nullptr); }  // its slot is free first
    s.end();
  }
  gone.reset();
  const auto next = offloaded(scheduler);
  ho::step s(scheduler);
  produce(*next, 4);
  auto in = next->fetch(nullptr);
  const seen values(nullptr, in.data(), n);
  in.end();
  s.end();
  CHECK(scheduler.report().host_bytes == 3 * slot);
  CHECK(from_gone->is(1));
  CHECK(values.is(4));
}

TEST_CASE("a handle that comes to stand for another stream is told from before") {
  vg::reset(vg::gb200());
  ho::detail::stream_order order;
  order.add(nullptr, "compute");
  order.fix();
  // CUDA's constant for the calling thread's own stream: one handle, as many streams as threads.
  const auto here = order.find(cudaStreamPerThread);
  auto there = here;
  std::thread other([&] { there = order.find(cudaStreamPerThread); });
  other.join();
  CHECK(there != here);
  CHECK(order.find(cudaStreamPerThread) == here);
}

TEST_CASE("a lease on a tensor that is gone is not taken for one on the tensor in its place") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = slot, .observer = watched});
  auto gone = std::make_unique<x_tensor>(scheduler, n, ho::layer_position{}, ho::choice::save);
  std::optional<ho::lease<float>> held;
  {
    ho::step s(scheduler);
    held.emplace(gone->produce(nullptr));
    gone.reset();
    CHECK_THROWS_WITH(s.end(), has_text("tensor x[0] was destroyed while a lease on it was held"));
  }
  x_tensor next(scheduler, n, {}, ho::choice::save);
  ho::step s(scheduler);
  auto out = next.produce(nullptr);
  held.reset();
  CHECK_THROWS_WITH(next.fetch(nullptr), has_text("its writable lease has to end before it is read"));
  fill(nullptr, out.data(), n, 2);
  out.end();
  auto in = next.fetch(nullptr);
  const seen values(nullptr, in.data(), n);
  in.end();
  s.end();
  CHECK(values.is(2));
}

/// A mask that keeps nine of ten. Each element's number depends on its place and `key` alone.
static void drop(std::span<float> out, std::uint64_t key) {
  float* const to = out.data();
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    std::uint64_t z = (key << 32U) + i;  // the finaliser of SplitMix64
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    to[i] = (z ^ (z >> 31U)) % 10 == 0 ? 0.0F : 1 / 0.9F;
  };
  ho::launch(nullptr, out.size(), kernel, {.name = "dropout", .writes = {{to, out.size_bytes()}}});
}

TEST_CASE("a dropout mask from a counter-based generator is recomputed to the same bits") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 0, .observer = watched});
  y_tensor mask(scheduler, n, {}, ho::choice::remat);
  const bool counter_based = GENERATE(true, false);
  auto with_state = std::make_shared<std::mt19937_64>(20240);
  std::uint64_t step = 0;
  mask.define([&, with_state](std::span<float> out) { drop(out, counter_based ? step : (*with_state)()); });
  std::vector<float> before;
  for (step = 1; step <= 3; ++step) {
    seen forward(n);
    seen backward(n);
    const auto train = [&]() -> ho::task<> {
      {
        auto in = co_await mask;
        forward.look(nullptr, in.data());
      }
      auto in = co_await std::move(mask);
      backward.look(nullptr, in.data());
    };
    scheduler.run(train);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(scheduler.report().tensors.at(0).recomputed == 1);
    CHECK((forward.values() == backward.values()) == counter_based);  // the comparison sees a generator with a state
    CHECK(std::count(forward.values().begin(), forward.values().end(), 0.0F) > 50);
    CHECK(forward.values() != before);
    before = forward.values();
  }
}

TEST_CASE("memory that somebody else still holds is planned but not freed, and the report says so") {
  gpu device;
  const bool hold = GENERATE(true, false);
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .observer = watched});
  const auto a = offloaded(scheduler);
  y_tensor b(scheduler, n, {0, 2}, ho::choice::offload);
  y_tensor c(scheduler, n, {1, 2}, ho::choice::offload);
  ho::step s(scheduler);
  produce(*a, 1);
  std::optional<ho::lease<const float>> holds;
  if (hold) holds.emplace(a->fetch(nullptr));
  produce(b, 2);
  produce(c, 3);
  holds.reset();
  s.end();
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const ho::step_report r = scheduler.report();
  CHECK(r.tensors.at(0).planned_bytes == slot);
  CHECK(r.tensors.at(0).freed_bytes == (hold ? 0 : slot));
  CHECK(r.tensors.at(1).planned_bytes == 2 * slot);
  CHECK(r.tensors.at(1).freed_bytes == (hold ? slot : 0));
}

TEST_CASE("every option has an effect", "[virtual]") {
  gpu device;
  const ho::stream compute;
  std::set<void*> taken;
  static std::set<void*>* observed = nullptr;
  observed = &taken;
  ho::scheduler_options options{.window = slot, .sample_every = 0};
  options.observer = {[](void* begin, std::size_t bytes) { observed->insert(begin), vg::slot_taken(begin, bytes); },
                      vg::slot_given_back};
  const auto run = [&] {
    taken.clear();
    vg::clear_timeline();
    vg::reset_call_counts();
    ho::prefetch_scheduler scheduler(options);
    const auto a = offloaded(scheduler);
    const auto b = offloaded(scheduler);
    for (int step = 0; step < 4; ++step) {
      const auto [from_a, from_b] = one_step(scheduler, *a, *b);
      CHECK((from_a.is(1) && from_b.is(2)));
    }
    CHECK(taken.size() == (options.window == slot ? 1 : 2));
    return scheduler.report();
  };
  SECTION("window") {
    CHECK(run().copies_in == 2);
    CHECK(vg::memory_usage().device_peak == slot);
    options.window = ho::unlimited;
    CHECK(run().copies_in == 0);
  }
  SECTION("overlap: with it each direction has a stream, without it copies are in the compute stream") {
    for (const auto kind : {to_host, to_device}) {
      options.overlap = true;
      run();
      for (const vg::operation& o : copies(kind)) CHECK(o.stream != 0);
      options.overlap = false;
      run();
      REQUIRE_FALSE(copies(kind).empty());
      for (const vg::operation& o : copies(kind)) CHECK(o.stream == 0);
    }
  }
  SECTION("sample_every") {
    CHECK_FALSE(run().sampled);
    options.sample_every = 1;
    CHECK(run().sampled);
  }
  SECTION("device_memory and host_memory: what the caller gives is used, and nothing is allocated") {
    run();
    CHECK((vg::calls("cudaMalloc") == 1 && vg::calls("cudaHostAlloc") == 1));
    const ho::device_allocation memory(2 * slot);
    const ho::pinned_allocation host(2 * slot);
    options.device_memory = memory.region();
    options.host_memory = host.region();
    run();
    CHECK((vg::calls("cudaMalloc") == 0 && vg::calls("cudaHostAlloc") == 0));
    CHECK(taken.count(memory.region().begin) == 1);
    options.host_memory.bytes = slot;
    CHECK_THROWS_AS(run(), ho::host_capacity_error);
    options.window = 3 * slot;
    CHECK_THROWS_AS(run(), ho::usage_error);
  }
  SECTION("host_capacity") {
    options.host_capacity = 2 * slot;
    CHECK(run().host_bytes == 2 * slot);
    --options.host_capacity;
    ho::prefetch_scheduler scheduler(options);
    const auto a = offloaded(scheduler);
    CHECK_THROWS_AS(offloaded(scheduler), ho::host_capacity_error);
  }
  SECTION("compute: the copies of a scheduler without overlap are there") {
    options.compute = compute.get();
    options.overlap = false;
    ho::prefetch_scheduler scheduler(options);
    CHECK(scheduler.compute() == compute.get());
    const auto a = offloaded(scheduler);
    ho::step s(scheduler);
    {
      auto out = a->produce(compute.get());
      fill(compute.get(), out.data(), n, 1);
    }
    s.end();
    const auto out = copies(to_host);
    REQUIRE(out.size() == 1);
    CHECK(out[0].stream == id_of(compute.get()));
  }
}

TEST_CASE("the peak may be in any layer: offload and recomputation lower it, and the report has it") {
  gpu device;
  constexpr std::size_t layers = 5;
  constexpr std::size_t large = 4;
  const std::size_t at = GENERATE(0U, 1U, 2U, 3U, 4U);
  const bool a_first = GENERATE(false, true);
  const auto peak = [&](ho::choice a_placed, ho::choice b_placed) {
    ho::prefetch_scheduler scheduler({.window = large * slot, .observer = watched});
    std::vector<std::unique_ptr<x_tensor>> a;
    std::vector<std::unique_ptr<y_tensor>> b;
    for (std::size_t i = 0; i < layers; ++i) {
      const std::size_t elements = i == at ? large * n : n;
      a.push_back(std::make_unique<x_tensor>(scheduler, elements, ho::layer_position{i, layers}, a_placed));
      b.push_back(std::make_unique<y_tensor>(scheduler, elements, ho::layer_position{i, layers}, b_placed));
      a[i]->define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 1); });
      b[i]->define([from = a[i].get()](std::span<float> out) -> ho::task<> {
        auto in = co_await *from;
        add(nullptr, in.data(), in.data(), out.data(), out.size());
      });
    }
    for (int step = 0; step < 3; ++step) {
      const auto train = [&]() -> ho::task<> {
        for (auto& t : b) auto in = co_await *t;
        for (std::size_t i = layers; i-- > 0;) {
          if (a_first) auto in = co_await std::move(*a[i]);  // then it is made once more for b alone
          { auto in = co_await std::move(*b[i]); }
          if (!a_first) auto in = co_await std::move(*a[i]);
        }
      };
      scheduler.run(train);
    }
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    const ho::step_report r = scheduler.report();
    CHECK(r.window_peak_bytes <= large * slot);
    CHECK(r.device_bytes >= r.device_peak_bytes);
    return r.device_peak_bytes;
  };
  constexpr std::size_t all = (layers - 1 + large) * slot;
  CHECK(peak(ho::choice::save, ho::choice::save) == 2 * all);
  CHECK(peak(ho::choice::save, ho::choice::remat) == std::max(all + slot, (at + 2 * large) * slot));
  CHECK(peak(ho::choice::offload, ho::choice::remat) == 2 * large * slot);
  CHECK(peak(ho::choice::remat, ho::choice::remat) == 2 * large * slot);
}
