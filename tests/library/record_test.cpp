// The record of a step: every tensor, how it was made, of what, and how long that took.

#include "gpu.hpp"

#include <hostoffload/schedule/measure_link.hpp>
#include <hostoffload/schedule/record_file.hpp>
#include <hostoffload/virtual_gpu/faults.hpp>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace ho::literals;

namespace {

enum class name { shared, a, b, c, other };
template <name Name>
using tensor = ho::offload_tensor<float, ho::any_placement<Name>>;

constexpr std::size_t n = 1000;

/// c is made of b, b of a together with other, a of shared; b and c read shared too.
struct chain {
  chain(ho::prefetch_scheduler& scheduler, ho::choice placed, std::size_t layer = 0)
      : at{layer, layer + 1},
        stream(scheduler.compute()),
        shared(scheduler, n, at, ho::choice::save),
        a(scheduler, n, at, placed),
        b(scheduler, n, at, placed),
        other(scheduler, n, at, placed),
        c(scheduler, n, at, placed) {
    a.define([this](std::span<float> out) -> ho::task<> {
      busy(stream, 1e-3);
      auto s = co_await shared;
      add(stream, s.data(), s.data(), out.data(), n);
      busy(stream, 2e-3);
    });
    const auto make_b = [this](std::span<float> out, std::span<float> beside) -> ho::task<> {
      auto x = co_await a;
      auto s = co_await shared;
      add(stream, x.data(), s.data(), out.data(), n);
      add(stream, x.data(), x.data(), beside.data(), n);
      busy(stream, 4e-3);
    };
    ho::define_group(make_b, b, other);
    c.define([this](std::span<float> out) {
      auto x = b.fetch(stream);
      auto s = shared.fetch(stream);
      add(stream, x.data(), s.data(), out.data(), n);
      busy(stream, 8e-3);
    });
  }
  void begin() {
    auto s = shared.produce(stream);
    fill(stream, s.data(), n, 1);
  }
  ho::task<> forward() {
    begin();
    auto y = co_await c;
    busy(stream, 16e-3);
  }
  ho::task<> backward() {
    {
      auto y = co_await std::move(c);
      busy(stream, 32e-3);
    }
    {
      auto x = co_await std::move(a);
      auto y = co_await std::move(b);
      auto z = co_await std::move(other);
      all.push_back(std::make_unique<seen>(stream, z.data(), 4));
    }
    auto s = co_await std::move(shared);
  }

  ho::layer_position at;
  cudaStream_t stream;
  tensor<name::shared> shared;
  tensor<name::a> a;
  tensor<name::b> b;
  tensor<name::other> other;
  tensor<name::c> c;
  std::vector<std::unique_ptr<seen>> all;
};

const ho::scheduler_options recording{.window = 1_MiB, .sample_every = 1, .plan = true, .observer = watched};

template <class Step>
ho::recorded_step recorded(ho::prefetch_scheduler& scheduler, const Step& step) {
  for (int i = 1; i <= 5; ++i) {
    scheduler.run(step);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  REQUIRE(scheduler.record());
  ho::recorded_step r = *scheduler.record();
  std::ostringstream text;
  ho::write_record(text, r);
  std::istringstream in(text.str());
  CHECK(ho::read_record(in, "a.record") == r);
  return r;
}

std::vector<std::string> names(const ho::recorded_step& r, const std::vector<std::uint32_t>& lives) {
  std::vector<std::string> all;
  for (const std::uint32_t l : lives) all.push_back(r.lives.at(l).name);
  return all;
}
std::vector<std::string> inputs(const ho::recorded_step& r, const ho::recorded_making& m) {
  std::vector<std::uint32_t> lives;
  for (const ho::recorded_input& i : m.inputs) lives.push_back(i.life);
  return names(r, lives);
}
double seconds(const ho::recorded_step& r, std::uint32_t begin, std::uint32_t end) {
  double sum = 0;
  for (std::uint32_t i = begin; i < end; ++i) sum += r.segment_s.at(i);
  return sum;
}

using list = std::vector<std::string>;

}  // namespace

TEST_CASE("a record has every tensor whatever its placement, what was made with it and of what, and the times") {
  gpu device;
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  INFO(ho::to_string(placed));
  ho::prefetch_scheduler scheduler(recording);
  chain t(scheduler, placed);
  const ho::recorded_step r = recorded(scheduler, [&]() -> ho::task<> {
    co_await t.forward();
    co_await t.backward();
  });
  REQUIRE(r.lives.size() == 5);
  std::size_t ended = 0;
  for (const ho::recorded_life& l : r.lives) {
    CHECK(l.bytes == n * sizeof(float));
    CHECK(l.placed == (l.name == "shared" ? ho::choice::save : placed));
    ended += l.ended ? 1 : 0;
  }
  CHECK(ended == 5);
  CHECK((r.out.rate > 0) == (placed == ho::choice::offload));

  std::vector<ho::recorded_making> first;
  std::vector<ho::recorded_making> again;
  for (const ho::recorded_making& m : r.makings) (m.again ? again : first).push_back(m);
  REQUIRE(first.size() == 3);  // c's, within it b's, within it a's
  CHECK(names(r, first[0].makes) == list{"c"});
  CHECK(names(r, first[1].makes) == list{"b", "other"});
  CHECK(names(r, first[2].makes) == list{"a"});
  CHECK(inputs(r, first[0]) == list{"b", "shared"});
  CHECK(inputs(r, first[1]) == list{"a", "shared"});
  CHECK(inputs(r, first[2]) == list{"shared"});
  CHECK(seconds(r, first[2].begin, first[2].end) == Approx(3e-3).epsilon(0.02));
  CHECK(seconds(r, first[1].begin, first[1].end) == Approx(7e-3).epsilon(0.02));
  CHECK(seconds(r, first[0].begin, first[0].end) == Approx(15e-3).epsilon(0.02));
  CHECK(seconds(r, 0, static_cast<std::uint32_t>(r.segment_s.size())) ==
        Approx(placed == ho::choice::remat ? 78e-3 : 63e-3).epsilon(0.02));

  if (placed != ho::choice::remat) {
    CHECK(again.empty());
    return;
  }
  REQUIRE(again.size() == 3);  // the same; what is made for c is there for its own use
  CHECK(names(r, again[0].makes) == list{"c"});
  CHECK(names(r, again[1].makes) == list{"b"});  // other has not been used yet, and is still there
  CHECK(names(r, again[2].makes) == list{"a"});
  CHECK(inputs(r, again[1]) == list{"a", "shared"});
  CHECK(seconds(r, again[0].begin, again[0].end) == Approx(15e-3).epsilon(0.02));
}

TEST_CASE("a tensor that the trainer holds while a define function awaits it is an input all the same") {
  gpu device;
  ho::prefetch_scheduler scheduler(recording);
  chain t(scheduler, ho::choice::save);
  const ho::recorded_step r = recorded(scheduler, [&]() -> ho::task<> {
    t.begin();
    {
      auto held = co_await t.shared;
      auto x = co_await t.a;
    }
    co_await t.backward();
  });
  REQUIRE_FALSE(r.makings.empty());
  CHECK(names(r, r.makings[0].makes) == list{"a"});
  CHECK(inputs(r, r.makings[0]) == list{"shared"});
}

TEST_CASE("micro batches: a tensor has a life in each") {
  gpu device;
  ho::prefetch_scheduler scheduler(recording);
  chain t(scheduler, ho::choice::offload);
  const ho::recorded_step r = recorded(scheduler, [&]() -> ho::task<> {
    for (int batch = 0; batch < 3; ++batch) {
      co_await t.forward();
      co_await t.backward();
    }
  });
  REQUIRE(r.lives.size() == 15);
  REQUIRE(r.makings.size() == 9);
  for (std::size_t i = 0; i < r.lives.size(); ++i) CHECK(r.lives[i].tensor == i % 5);
  CHECK(r.lives[14].uses.front().begin > r.lives[9].uses.back().begin);
}

TEST_CASE("a life that no last use ends is left to the step's end") {
  gpu device;
  ho::prefetch_scheduler scheduler(recording);
  chain kept(scheduler, ho::choice::save);
  chain used(scheduler, ho::choice::save, 1);
  const ho::recorded_step r = recorded(scheduler, [&]() -> ho::task<> {
    co_await kept.forward();
    co_await used.forward();
    co_await used.backward();
  });
  REQUIRE(r.lives.size() == 10);
  for (const ho::recorded_life& l : r.lives) CHECK(l.ended == (l.layer == 1));
}

TEST_CASE("forward only is no step to record") {
  gpu device;
  ho::prefetch_scheduler scheduler(recording);
  chain t(scheduler, ho::choice::save);
  for (int i = 1; i <= 6; ++i) {
    const auto forward = [&] { return t.forward(); };
    scheduler.run(forward);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  CHECK_FALSE(scheduler.record());
}

TEST_CASE("leases on a second stream are uses as others are") {
  gpu device;
  ho::prefetch_scheduler scheduler(recording);
  const ho::stream second;
  chain t(scheduler, ho::choice::offload);
  const ho::recorded_step r = recorded(scheduler, [&]() -> ho::task<> {
    co_await t.forward();
    {
      auto there = co_await t.c.on(second.get());
      busy(second.get(), 1e-3);
    }
    co_await t.backward();
  });
  const auto c = std::find_if(r.lives.begin(), r.lives.end(), [](const auto& l) { return l.name == "c"; });
  REQUIRE(c != r.lives.end());
  CHECK(c->uses.size() == 4);  // made, forward, on the second stream, backward
}

TEST_CASE("coroutines side by side are recorded where they take turns between define functions, not within") {
  gpu device;
  ho::prefetch_scheduler scheduler(recording);
  chain left(scheduler, ho::choice::save);
  chain right(scheduler, ho::choice::save, 1);
  ho::host_values<float> values(scheduler, 1);
  const bool within = GENERATE(false, true);
  tensor<name::shared> slow(scheduler, n, {}, ho::choice::save);
  slow.define([&](std::span<float> out) -> ho::task<> {
    fill(left.stream, out.data(), n, 1);
    if (!within) co_return;
    const auto read = co_await values.read(out.data(), 1, left.stream);
    CHECK(read[0] == 1);
  });
  const auto run = [&](chain& t, bool makes_slow) -> ho::task<> {
    if (makes_slow) auto s = co_await slow;
    co_await t.forward();
    co_await t.backward();
  };
  const auto step = [&]() -> ho::task<> {
    auto one = run(left, true);
    auto two = run(right, false);
    co_await ho::when_all(std::move(one), std::move(two));
  };
  for (int i = 1; i <= 6; ++i) {
    scheduler.run(step);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  CHECK(scheduler.record().has_value() == !within);
}

TEST_CASE("an offloaded tensor that is made again is not planned for, and recorded all the same") {
  gpu device;
  ho::prefetch_scheduler scheduler(recording);
  tensor<name::a> a(scheduler, n, {}, ho::choice::remat);
  tensor<name::b> b(scheduler, n, {}, ho::choice::offload);
  ho::define_group(
      [&](std::span<float> x, std::span<float> y) {
        fill(scheduler.compute(), x.data(), n, 1);
        fill(scheduler.compute(), y.data(), n, 2);
      },
      a, b);
  const ho::recorded_step r = recorded(scheduler, [&]() -> ho::task<> {
    { auto x = co_await a; }
    { auto y = co_await b; }
    { auto x = co_await std::move(a); }
    auto y = co_await std::move(b);
  });
  REQUIRE(r.makings.size() == 2);
  CHECK(names(r, r.makings[0].makes) == list{"a", "b"});
  CHECK(names(r, r.makings[1].makes) == list{"a"});  // b's values are thrown away
  CHECK(scheduler.report().plan_note ==
        "no plans are made for coroutines side by side, nor where an offloaded tensor is made again");
}

TEST_CASE("a step in which a call failed, and that went on all the same, leaves a record of all its uses or none") {
  std::size_t without = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    INFO("event " << nth << " of the timed step");
    const gpu device;
    ho::prefetch_scheduler scheduler({.window = 4 * n * sizeof(float) + 1_KiB, .sample_every = 64, .plan = true});
    std::vector<std::unique_ptr<tensor<name::a>>> all;
    for (int i = 0; i < 3; ++i)
      all.push_back(std::make_unique<tensor<name::a>>(scheduler, n, ho::layer_position{}, ho::choice::offload));
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
      for (const auto& t : all) auto in = persistent([&] { return std::move(*t).fetch(nullptr); });
      s.end();
    };
    run();
    run();
    vg::fail_call(nth, cudaErrorMemoryAllocation, "cudaEventRecord");
    try {
      run();
    } catch (const ho::cuda_error&) {  // the step's own beginning or end
    }
    const bool reached = vg::failed_call().has_value();
    vg::clear_faults();
    for (int step = 4; step <= 5; ++step) {
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      run();
    }
    const std::optional<ho::recorded_step> record = scheduler.record();
    if (!record) ++without;
    if (record) {
      REQUIRE(record->lives.size() == 3);
      for (const ho::recorded_life& life : record->lives) CHECK((life.uses.size() == 2 && life.ended));
      CHECK(std::min(record->out.rate, record->in.rate) > 1e8);
    }
    if (reached) continue;
    CHECK(record);
    break;
  }
  CHECK(without > 10);
}

TEST_CASE("a step in which something is made for a recomputation alone, and has no life of its own, is not recorded") {
  const gpu device;
  ho::prefetch_scheduler scheduler(recording);
  chain t(scheduler, ho::choice::remat);
  for (int step = 1; step <= 5; ++step) {
    ho::step s(scheduler);
    t.begin();
    {
      auto by_hand = t.b.produce(nullptr);
      fill(nullptr, by_hand.data(), n, 1);
    }
    { auto again = t.b.fetch(nullptr); }  // of what never was in this step
    { auto last = std::move(t.b).fetch(nullptr); }
    s.end();
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  CHECK_FALSE(scheduler.record());
}

TEST_CASE("a record says how long the compute stream takes to start behind a copy that it waited for") {
  vg::machine m = vg::gb200();
  m.wait_latency.value = GENERATE(3e-6, 5e-6, 0.0);
  gpu device(m);
  constexpr std::size_t much = std::size_t{1} << 20U;  // floats: about 20 us a copy
  ho::prefetch_scheduler scheduler({.window = much * sizeof(float), .sample_every = 1, .plan = true});
  tensor<name::a> a(scheduler, much, {0, 1}, ho::choice::offload);
  tensor<name::b> b(scheduler, much, {0, 1}, ho::choice::offload);
  const ho::recorded_step r = recorded(scheduler, [&]() -> ho::task<> {
    const auto produce = [](auto& t) {
      auto made = t.produce(nullptr);
      fill(nullptr, made.data(), much, 1);
    };
    produce(a);
    produce(b);
    { auto used = std::move(b).fetch(nullptr); }
    { auto used = std::move(a).fetch(nullptr); }
    co_return;
  });
  CHECK(r.wait_latency_s == Approx(m.wait_latency.value).margin(2e-8));
}

TEST_CASE("the link of a record without copies is measured") {
  const auto described = GENERATE(vg::gb200, vg::h200, vg::gh200);
  const vg::machine m = described();
  gpu device(m);
  const ho::measured_link link = ho::measure_link(64_MiB);
  CHECK(link.out.rate == Approx(m.link.to_host.value).epsilon(0.001));
  CHECK(link.in.rate == Approx(m.link.to_device.value).epsilon(0.001));
  CHECK(link.out.rate_while_both + link.in.rate_while_both == Approx(2 * m.link.both.value).epsilon(0.001));
  CHECK(link.out.latency_s == Approx(m.link.queued_latency.value).epsilon(0.05));
  CHECK(vg::memory_usage().device_bytes == 0);
  CHECK_THROWS_WITH(ho::measure_link(3), has_text("at least 4 bytes"));
}
