// Misuse is a typed error that names the tensor and says what to do; nothing is corrupted by it.

#include "gpu.hpp"

#include <memory>
#include <optional>

using namespace ho::literals;

namespace {

enum class name { x, y };
using x_tensor = ho::offload_tensor<float, ho::any_placement<name::x>>;
using y_tensor = ho::offload_tensor<float, ho::any_placement<name::y>>;
constexpr std::size_t n = 100;

/// x is defined over y and the other way round.
struct ring {
  explicit ring(ho::prefetch_scheduler& s) : x(s, n, {}, ho::choice::save), y(s, n, {}, ho::choice::save) {
    x.define([this](std::span<float>) -> ho::task<> { auto in = co_await y; });
    y.define([this](std::span<float>) -> ho::task<> { auto in = co_await x; });
  }
  x_tensor x;
  y_tensor y;
};

}  // namespace

TEST_CASE("a lease outside of a step") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB});
  x_tensor t(scheduler, n, {}, ho::choice::offload);
  CHECK_THROWS_WITH(t.produce(nullptr), has_text("tensor x[0]: produce within a step"));
  CHECK_THROWS_WITH(t.fetch(nullptr), has_text("tensor x[0]: leases are taken within a step"));
}

TEST_CASE("a tensor that was neither produced nor defined") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB});
  x_tensor t(scheduler, n, {}, ho::choice::offload);
  const auto use = [&]() -> ho::task<> { auto in = co_await t; };
  CHECK_THROWS_WITH(scheduler.run(use),
                    has_text("tensor x[0] has no values: produce it in this step, or define how it is made"));
}

TEST_CASE("a tensor that is produced twice") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB, .observer = watched});
  x_tensor t(scheduler, n, {}, ho::choice::offload);
  ho::step s(scheduler);
  {
    auto out = t.produce(nullptr);
    fill(nullptr, out.data(), n, 1);
    CHECK_THROWS_WITH(t.fetch(nullptr), has_text("tensor x[0]: its writable lease has to end before it is read"));
  }
  CHECK_THROWS_WITH(t.produce(nullptr), has_text("tensor x[0]: produced while it still holds values"));
  s.end();
}

TEST_CASE("a tensor placed as remat that nothing makes again") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB});
  x_tensor t(scheduler, n, {}, ho::choice::remat);
  ho::step s(scheduler);
  CHECK_THROWS_WITH(t.produce(nullptr),
                    has_text("tensor x[0] is placed as remat and nothing says how it is made again"));
}

TEST_CASE("define functions that await each other") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB});
  ring tensors(scheduler);
  const auto use = [&]() -> ho::task<> { auto in = co_await tensors.x; };
  CHECK_THROWS_WITH(scheduler.run(use), has_text("tensor x[0]: its define function awaits the tensor itself"));
}

TEST_CASE("define functions of two coroutines that wait for each other") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB, .observer = watched});
  ho::host_values<float> value(scheduler, 1);
  x_tensor input(scheduler, n, {1, 2}, ho::choice::save);
  input.define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 1); });
  x_tensor x(scheduler, n, {0, 2}, ho::choice::save);
  y_tensor y(scheduler, n, {0, 2}, ho::choice::save);
  x.define([&](std::span<float>) -> ho::task<> {
    auto in = co_await input;
    auto first = co_await value.read(in.data(), 1, nullptr);  // the other coroutine goes on
    CHECK(first[0] == 1);
    auto cycle = co_await y;
  });
  y.define([&](std::span<float>) -> ho::task<> { auto cycle = co_await x; });
  const auto use_x = [&]() -> ho::task<> { auto in = co_await x; };
  const auto use_y = [&]() -> ho::task<> { auto in = co_await y; };
  const auto both = [&]() -> ho::task<> { co_await ho::when_all(use_x(), use_y()); };
  CHECK_THROWS_WITH(scheduler.run(both), has_text("its define function waits for a tensor that waits for it"));
}

TEST_CASE("a tensor that is defined twice, or while it holds values") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB, .observer = watched});
  x_tensor t(scheduler, n, {}, ho::choice::save);
  const auto make = [](std::span<float> out) { fill(nullptr, out.data(), out.size(), 1); };
  ho::step s(scheduler);
  {
    auto out = t.produce(nullptr);
    fill(nullptr, out.data(), n, 1);
  }
  CHECK_THROWS_WITH(t.define(make), has_text("tensor x[0] is defined while it holds values"));
  s.end();
  t.define(make);
  CHECK_THROWS_WITH(t.define(make), has_text("tensor x[0] is defined twice"));
}

TEST_CASE("a group whose members are at different points of their lives") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB, .observer = watched});
  x_tensor x(scheduler, n, {}, ho::choice::save);
  y_tensor y(scheduler, n, {}, ho::choice::save);
  const auto make = [](std::span<float> a, std::span<float> b) {
    fill(nullptr, a.data(), a.size(), 1);
    fill(nullptr, b.data(), b.size(), 1);
  };
  ho::define_group(make, x, y);
  const auto use = [&]() -> ho::task<> {
    { auto in = co_await std::move(x); }
    auto in = co_await x;  // a second life, while y is in its first
  };
  CHECK_THROWS_WITH(scheduler.run(use), has_text("tensor y[0] still holds values while x[0] of its group begins anew"));
}

TEST_CASE("a group is needed while one of it is written by hand") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB, .observer = watched});
  x_tensor x(scheduler, n, {}, ho::choice::save);
  y_tensor y(scheduler, n, {}, ho::choice::save);
  const auto make = [](std::span<float> a, std::span<float> b) {
    fill(nullptr, a.data(), a.size(), 1);
    fill(nullptr, b.data(), b.size(), 2);
  };
  ho::define_group(make, x, y);
  ho::step s(scheduler);
  {
    auto out = y.produce(nullptr);
    CHECK_THROWS_WITH(x.fetch(nullptr), has_text("tensor y[0] is being made or written while its group is needed"));
    fill(nullptr, out.data(), n, 3);
  }
  auto in = std::move(y).fetch(nullptr);
  const seen values(nullptr, in.data(), n);
  in.end();
  auto made = x.fetch(nullptr);
  const seen others(nullptr, made.data(), n);
  made.end();
  s.end();
  CHECK(values.is(3));
  CHECK(others.is(1));
}

TEST_CASE("a lease that is held when the step ends is an error, and void from then on") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB, .observer = watched});
  x_tensor t(scheduler, n, {}, ho::choice::offload);
  std::optional<ho::lease<float>> held;
  {
    ho::step s(scheduler);
    held.emplace(t.produce(nullptr));
    fill(nullptr, held->data(), n, 1);
    CHECK_THROWS_WITH(s.end(), has_text("the step ends while a lease on tensor x[0] is held: end() it, or leave its "
                                        "scope, before the step ends"));
  }
  {
    ho::step s(scheduler);
    auto out = t.produce(nullptr);
    held.reset();  // must not end the new lease
    fill(nullptr, out.data(), n, 2);
    out.end();
    auto in = t.fetch(nullptr);
    const seen values(nullptr, in.data(), n);
    in.end();
    s.end();
    CHECK(values.is(2));
  }
}

TEST_CASE("a step within a step") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB});
  ho::step s(scheduler);
  CHECK_THROWS_WITH(ho::step(scheduler), has_text("a step begins while another one of the same scheduler runs"));
  const auto nothing = []() -> ho::task<> { co_return; };
  CHECK_THROWS_WITH(scheduler.run(nothing), has_text("a step begins while another one"));
  s.end();
  CHECK_NOTHROW(scheduler.run(nothing));
}

TEST_CASE("a coroutine that awaits what no scheduler knows") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB});
  const auto stuck = []() -> ho::task<> { co_await std::suspend_always{}; };
  CHECK_THROWS_WITH(scheduler.run(stuck), has_text("awaits something that no scheduler knows"));
}

TEST_CASE("a define function that awaits what no scheduler knows: the tensor is as before") {
  gpu device;
  constexpr std::size_t slot = 512;
  ho::prefetch_scheduler scheduler({.window = slot, .observer = watched});
  x_tensor x(scheduler, n, {}, ho::choice::offload);
  y_tensor y(scheduler, n, {}, ho::choice::save);
  bool stuck = true;
  x.define([&](std::span<float> out) -> ho::task<> {
    auto in = co_await y;
    fill(nullptr, out.data(), out.size(), 1);
  });
  y.define([&](std::span<float> out) -> ho::task<> {
    fill(nullptr, out.data(), out.size(), 1);
    if (stuck) co_await std::suspend_always{};
  });
  for (int step = 0; step < 2; ++step) {
    seen values(n);
    ho::step s(scheduler);
    stuck = true;
    CHECK_THROWS_WITH(x.fetch(nullptr), has_text("awaits something that no scheduler knows"));
    stuck = false;
    {
      auto in = x.fetch(nullptr);  // in the same memory
      values.look(nullptr, in.data());
    }
    s.end();
    CHECK(values.is(1));
    CHECK(scheduler.report().least_window_bytes == slot);
  }
}

TEST_CASE("host memory that does not suffice: an error, or the fallback that the placement names", "[virtual]") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 64_KiB, .host_capacity = 1024, .observer = watched});
  x_tensor first(scheduler, 200, {0, 4}, ho::choice::offload);
  try {
    const x_tensor second(scheduler, 200, {1, 4}, ho::choice::offload);
    FAIL("no error");
  } catch (const ho::host_capacity_error& e) {
    CHECK(e.needed() == 2048);
    CHECK(e.capacity() == 1024);
    CHECK_THAT(
        e.what(),
        has_text("tensor x[1]: its 800 bytes do not fit into the host memory left: 1024 of 1024 bytes are taken"));
  }
  x_tensor saved(scheduler, 200, {2, 4}, ho::choice::offload_or_save);
  x_tensor dropped(scheduler, 200, {3, 4}, ho::choice::offload_or_remat);
  CHECK(saved.placed() == ho::choice::save);
  CHECK(dropped.placed() == ho::choice::remat);
  CHECK(first.placed() == ho::choice::offload);
  for (x_tensor* t : {&first, &saved, &dropped}) {
    t->define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 4); });
  }
  std::vector<std::unique_ptr<seen>> all;
  const auto train = [&]() -> ho::task<> {
    for (x_tensor* t : {&first, &saved, &dropped}) auto in = co_await *t;
    for (x_tensor* t : {&first, &saved, &dropped}) {
      auto in = co_await std::move(*t);
      all.push_back(std::make_unique<seen>(nullptr, in.data(), 200));
    }
  };
  scheduler.run(train);
  for (const auto& s : all) CHECK(s->is(4));
  CHECK(scheduler.report().tensors.at(0).fell_back == 2);
  CHECK(vg::memory_usage().pinned_peak == 1024);
}

TEST_CASE("a tensor without elements, or of a layer that does not exist") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB});
  CHECK_THROWS_WITH(x_tensor(scheduler, 0, {}, ho::choice::save),
                    has_text("tensor x: a tensor has at least one element"));
  CHECK_THROWS_WITH(x_tensor(scheduler, 1, {3, 3}, ho::choice::save),
                    has_text("layer 3 of 3: layers are counted from 0"));
  CHECK_THROWS_WITH(x_tensor(scheduler, ~std::size_t{0} / 2, {}, ho::choice::save),
                    has_text("more than can be addressed"));
}

TEST_CASE("device memory that does not suffice names tensor and bytes, and the next step is right", "[virtual]") {
  vg::machine small = vg::gb200();
  small.device_memory.value = 1 << 20;
  gpu device(small);
  ho::prefetch_scheduler scheduler({.window = 4_KiB, .observer = watched});
  {
    x_tensor large(scheduler, 1 << 20, {}, ho::choice::save);
    y_tensor ok(scheduler, n, {}, ho::choice::save);
    const auto use = [&]() -> ho::task<> {
      auto a = ok.produce(nullptr);
      fill(nullptr, a.data(), n, 1);
      auto b = large.produce(nullptr);
      co_return;
    };
    try {
      scheduler.run(use);
      FAIL("no error");
    } catch (const ho::out_of_memory& e) {
      CHECK(e.requested() == 4U << 20U);
      CHECK(e.code() == cudaErrorMemoryAllocation);
      CHECK_THAT(e.what(), has_text("cudaMalloc for tensor x[0]") && has_text("4194304 bytes were requested"));
    }
    ho::step s(scheduler);
    {
      auto out = ok.produce(nullptr);
      fill(nullptr, out.data(), n, 3);
    }
    auto in = ok.fetch(nullptr);
    const seen values(nullptr, in.data(), n);
    in.end();
    s.end();
    CHECK(values.is(3));
  }
  CHECK_THROWS_AS(ho::prefetch_scheduler({.window = 2_MiB}), ho::out_of_memory);
}

TEST_CASE("memory of the caller's that does not suffice names tensor and bytes, and what fits goes on") {
  gpu device;
  const ho::device_allocation region(3 * 512);
  {
    ho::prefetch_scheduler scheduler({.window = 512, .device_memory = region.region(), .observer = watched});
    x_tensor first(scheduler, n, {0, 3}, ho::choice::save);
    x_tensor second(scheduler, n, {1, 3}, ho::choice::save);
    x_tensor third(scheduler, n, {2, 3}, ho::choice::save);
    ho::step s(scheduler);
    auto a = first.produce(nullptr);
    auto b = second.produce(nullptr);
    fill(nullptr, a.data(), n, 1);
    fill(nullptr, b.data(), n, 2);
    try {
      auto c = third.produce(nullptr);
      FAIL("no error");
    } catch (const ho::out_of_memory& e) {
      CHECK(e.requested() == 512);
      CHECK_THAT(e.what(), has_text("tensor x[2]: 512 bytes were requested and 0 of the caller's 1024 are left"));
    }
    a.end();
    { auto last = std::move(first).fetch(nullptr); }
    {
      auto c = third.produce(nullptr);  // in the first one's place
      fill(nullptr, c.data(), n, 3);
    }
    b.end();
    auto in = second.fetch(nullptr);
    const seen values(nullptr, in.data(), n);
    in.end();
    s.end();
    CHECK(values.is(2));
  }
}

TEST_CASE("an exception in the trainer's own code abandons the step") {
  gpu device;
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  ho::prefetch_scheduler scheduler({.window = 1_KiB, .observer = watched});
  x_tensor a(scheduler, n, {0, 2}, placed);
  x_tensor b(scheduler, n, {1, 2}, placed);
  a.define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 1); });
  b.define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 2); });
  for (int broken = 0; broken < 4; ++broken) {
    const auto train = [&](int fail_at) -> ho::task<> {
      auto in = co_await a;
      if (fail_at == 0) throw std::runtime_error("trainer");
      in.end();
      { auto other = co_await b; }
      if (fail_at == 1) throw std::runtime_error("trainer");
      auto last_b = co_await std::move(b);
      if (fail_at == 2) throw std::runtime_error("trainer");
      auto last_a = co_await std::move(a);
      if (fail_at == 3) throw std::runtime_error("trainer");
      const seen values(nullptr, last_a.data(), n);
      const seen others(nullptr, last_b.data(), n);
      last_a.end();
      last_b.end();
      CHECK(values.is(1));
      CHECK(others.is(2));
    };
    CHECK_THROWS_WITH(scheduler.run([&] { return train(broken); }), "trainer");
    CHECK_NOTHROW(scheduler.run([&] { return train(-1); }));
  }
}

TEST_CASE("a straight-line step that is left by an exception is abandoned") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 1_KiB, .observer = watched});
  x_tensor t(scheduler, n, {}, ho::choice::offload);
  for (int i = 0; i < 2; ++i) {
    try {
      const ho::step s(scheduler);
      auto out = t.produce(nullptr);
      fill(nullptr, out.data(), n, 1);
      throw std::runtime_error("trainer");
    } catch (const std::runtime_error& e) {
      CHECK(std::string(e.what()) == "trainer");
    }
  }
}

TEST_CASE("tensors and leases may outlive their scheduler, using them then is an error") {
  gpu device;
  auto scheduler =
      std::make_unique<ho::prefetch_scheduler>(ho::scheduler_options{.window = 4_KiB, .observer = watched});
  x_tensor t(*scheduler, n, {}, ho::choice::offload);
  std::optional<ho::lease<float>> held;
  {
    const ho::step s(*scheduler);
    held.emplace(t.produce(nullptr));
    fill(nullptr, held->data(), n, 1);
  }
  scheduler.reset();
  held.reset();
  CHECK_THROWS_WITH(t.produce(nullptr),
                    has_text("the scheduler has been destroyed: its tensors and steps are used while it lives"));
}

TEST_CASE(
    "a tensor destroyed while it is leased: the error comes with the next call, and its memory is not handed out too "
    "early") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 1_KiB, .observer = watched});
  ho::step s(scheduler);
  auto t = std::make_unique<x_tensor>(scheduler, n, ho::layer_position{}, ho::choice::offload);
  s.end();
  ho::step next(scheduler);
  auto out = t->produce(nullptr);
  fill(nullptr, out.data(), n, 1);
  t.reset();
  out.end();
  CHECK_THROWS_WITH(next.end(), has_text("tensor x[0] was destroyed while a lease on it was held"));
}

TEST_CASE("a tensor built in the middle of a step has pinned memory from the next step on") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB, .observer = watched});
  ho::step s(scheduler);
  x_tensor t(scheduler, n, {}, ho::choice::offload);
  CHECK_THROWS_WITH(t.produce(nullptr), has_text("tensor x[0] was built in the middle of this step"));
  s.end();
  ho::step next(scheduler);
  {
    auto out = t.produce(nullptr);
    fill(nullptr, out.data(), n, 1);
  }
  next.end();
}

TEST_CASE("a group built in the middle of a step, of which one tensor needs pinned memory, is made in the next step") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB, .observer = watched});
  ho::step s(scheduler);
  x_tensor saved(scheduler, n, {0, 2}, ho::choice::save);
  x_tensor offloaded(scheduler, n, {1, 2}, ho::choice::offload);
  ho::define_group(
      [](std::span<float> first, std::span<float> second) {
        fill(nullptr, first.data(), n, 1);
        fill(nullptr, second.data(), n, 2);
      },
      saved, offloaded);
  CHECK_THROWS_WITH(saved.fetch(nullptr), has_text("tensor x[1] was built in the middle of this step"));
  s.end();
  ho::step next(scheduler);
  {
    auto in = saved.fetch(nullptr);
    auto also = offloaded.fetch(nullptr);
  }
  next.end();
}

TEST_CASE("a scheduler destroyed with work in flight waits for its copies", "[virtual]") {
  gpu device;
  {
    ho::prefetch_scheduler scheduler({.window = 1_KiB, .observer = watched});
    x_tensor t(scheduler, n, {}, ho::choice::offload);
    ho::step s(scheduler);
    auto out = t.produce(nullptr);
    busy(nullptr, 1.0);
    fill(nullptr, out.data(), n, 1);
    out.end();
    s.end();
  }
  CHECK(vg::now() >= 1.0);
}

TEST_CASE("a lease on a second stream that is held when the step ends: the memory's next user goes behind it") {
  const bool overlap = GENERATE(false, true);
  const bool last = GENERATE(false, true);
  const std::size_t window = GENERATE(std::size_t{8192}, ho::unlimited);
  INFO("overlap " << overlap << ", last " << last << ", window " << window);
  gpu device;
  const ho::stream compute, other;
  ho::prefetch_scheduler scheduler(
      {.compute = compute.get(), .window = window, .overlap = overlap, .observer = watched});
  x_tensor t(scheduler, 1000, {}, ho::choice::offload);
  t.define([&](std::span<float> out) { fill(compute.get(), out.data(), out.size(), 1); });
  std::optional<seen> read;
  {
    ho::step s(scheduler);
    auto lease = last ? std::move(t).fetch(other.get()) : t.fetch(other.get());
    busy(other.get(), 1e-3);
    read.emplace(other.get(), lease.data(), 1000);
    CHECK_THROWS_WITH(s.end(), has_text("the step ends while a lease"));
  }
  {
    ho::step s(scheduler);
    auto lease = std::move(t).fetch(compute.get());
    lease.end();
    s.end();
  }
  CHECK(read->is(1));
}

TEST_CASE("host_capacity holds when tensors are destroyed and others of another size are built", "[virtual]") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 64_KiB, .host_capacity = 8_KiB, .observer = watched});
  for (const std::size_t elements : {1024U, 2048U, 512U}) {  // 4, 8 and 2 KiB, one at a time
    const x_tensor t(scheduler, elements, {}, ho::choice::offload);
    ho::step s(scheduler);
    s.end();
  }
  CHECK(vg::memory_usage().pinned_peak <= 8_KiB);
}
