// Objects that are destroyed, used twice or used in the wrong place while a step runs: an error that says so, and the
// next step gives the right values.

#include "gpu.hpp"

#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace ho::literals;

namespace {

enum class name { x, y };
using x_tensor = ho::offload_tensor<float, ho::any_placement<name::x>>;
using y_tensor = ho::offload_tensor<float, ho::any_placement<name::y>>;

constexpr std::size_t n = 64;
constexpr std::size_t slot = 256;

std::unique_ptr<x_tensor> make_tensor(ho::prefetch_scheduler& scheduler, ho::choice placed, float first) {
  auto t = std::make_unique<x_tensor>(scheduler, n, ho::layer_position{}, placed);
  t->define([first](std::span<float> out) { fill(nullptr, out.data(), out.size(), first); });
  return t;
}

/// That no slot is lost or taken to be in use, and that nobody has the memory too early.
void check_next_step(ho::prefetch_scheduler& scheduler) {
  const auto a = make_tensor(scheduler, ho::choice::offload, 100);
  const auto b = make_tensor(scheduler, ho::choice::offload, 200);
  std::optional<seen> from_a, from_b;
  const auto train = [&]() -> ho::task<> {
    auto in_a = co_await *a;
    auto in_b = co_await *b;
    from_a.emplace(nullptr, in_a.data(), n);
    from_b.emplace(nullptr, in_b.data(), n);
  };
  scheduler.run(train);
  CHECK(from_a->is(100));
  CHECK(from_b->is(200));
  CHECK(scheduler.report().least_window_bytes == 2 * slot);
}

ho::task<> nothing() { co_return; }

}  // namespace

TEST_CASE("a tensor is destroyed while another coroutine makes it") {
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  const bool of_a_group = GENERATE(false, true);
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 8 * slot, .observer = watched});
  ho::host_values<float> value(scheduler, 1);
  const auto input = make_tensor(scheduler, ho::choice::save, 1);
  std::unique_ptr<x_tensor> x;
  std::unique_ptr<y_tensor> y;
  auto held = std::make_shared<float>(7);  // by the define function, which runs on when the tensor is gone
  const auto write = [&, held](std::span<float> out) -> ho::task<> {
    auto in = co_await *input;
    auto first = co_await value.read(in.data(), 1, nullptr);  // the other coroutine goes on
    CHECK(first[0] == 1);
    fill(nullptr, out.data(), out.size(), *held);
  };
  const auto write_both = [write](std::span<float> a, std::span<float> b) -> ho::task<> {
    co_await write(a);
    fill(nullptr, b.data(), b.size(), 1);
  };
  const auto use = [&]() -> ho::task<> { auto in = co_await *x; };
  const auto destroy = [&]() -> ho::task<> {
    (of_a_group ? static_cast<void>(y.reset()) : x.reset());
    co_return;
  };
  const auto train = [&](bool fails) -> ho::task<> {
    if (fails) {
      co_await ho::when_all(use(), destroy());
    } else {
      co_await use();
    }
  };
  for (int round = 0; round < 2; ++round) {
    x = std::make_unique<x_tensor>(scheduler, n, ho::layer_position{}, placed);
    y = std::make_unique<y_tensor>(scheduler, n, ho::layer_position{}, placed);
    if (of_a_group) {
      ho::define_group(write_both, *x, *y);
    } else {
      x->define(write);
    }
    scheduler.run([&] { return train(false); });  // so that it is known what a coroutine needs: they run side by side
    scheduler.run([&] { return train(false); });
    scheduler.run([&] { return train(false); });
    CHECK_THROWS_WITH(scheduler.run([&] { return train(true); }),
                      has_text(of_a_group ? "tensor y[0] was destroyed while it was being made"
                                          : "tensor x[0] was destroyed while it was being made"));
    check_next_step(scheduler);
  }
}

TEST_CASE("a tensor is destroyed by its own define function") {
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .observer = watched});
  auto x = std::make_unique<x_tensor>(scheduler, n, ho::layer_position{}, placed);
  x->define([&x](std::span<float> out) {
    auto& destroyed = x;
    destroyed.reset();  // and with it, were it not held, this function
    fill(nullptr, out.data(), out.size(), 1);
  });
  const auto use = [&]() -> ho::task<> { auto in = co_await *x; };
  CHECK_THROWS_WITH(scheduler.run(use), has_text("tensor x[0] was destroyed while it was being made"));
  check_next_step(scheduler);
}

TEST_CASE("a tensor is destroyed while its group is made again beside it") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .observer = watched});
  x_tensor x(scheduler, n, {}, ho::choice::remat);
  auto y = std::make_unique<y_tensor>(scheduler, n, ho::layer_position{}, ho::choice::offload);
  bool destroys = false;
  const auto make = [&](std::span<float> a, std::span<float> b) {
    if (destroys) y.reset();
    fill(nullptr, a.data(), a.size(), 1);
    fill(nullptr, b.data(), b.size(), 2);
  };
  ho::define_group(make, x, *y);
  const auto train = [&]() -> ho::task<> {
    { auto in = co_await x; }
    { auto in = co_await *y; }
    busy(nullptr, 1e-3);
    { auto in = co_await std::move(x); }
    auto in = co_await std::move(*y);
  };
  for (int step = 0; step < 3; ++step) scheduler.run(train);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(scheduler.report().tensors.at(0).recomputed == 1);
  int calls = 0;
  const auto broken = [&]() -> ho::task<> {
    { auto in = co_await x; }
    { auto in = co_await *y; }
    destroys = true;
    ++calls;
    auto in = co_await std::move(x);
    ++calls;
  };
  CHECK_THROWS_WITH(scheduler.run(broken), has_text("tensor y[0] was destroyed while it was being made"));
  CHECK(calls == 1);
  check_next_step(scheduler);
}

TEST_CASE(
    "a tensor is destroyed while a coroutine waits for room for it: who is built in its place is not taken for it") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .observer = watched});
  ho::host_values<float> value(scheduler, 1);
  const auto a = make_tensor(scheduler, ho::choice::offload, 1);
  const auto b = make_tensor(scheduler, ho::choice::offload, 2);
  auto x = make_tensor(scheduler, ho::choice::offload, 3);
  std::unique_ptr<x_tensor> next;
  const auto holds = [&]() -> ho::task<> {
    auto in_a = co_await *a;
    auto in_b = co_await *b;
    auto first = co_await value.read(in_b.data(), 1, nullptr);
    CHECK(first[0] == 2);
  };
  const auto waits = [&]() -> ho::task<> { auto in = co_await *x; };
  const auto destroys = [&]() -> ho::task<> {
    x.reset();
    next = std::make_unique<x_tensor>(scheduler, 10, ho::layer_position{}, ho::choice::save);
    next->define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 4); });
    co_return;
  };
  const auto train = [&]() -> ho::task<> { co_await ho::when_all(holds(), waits(), destroys()); };
  CHECK_THROWS_WITH(scheduler.run(train), has_text("tensor x[0] was destroyed while it was awaited"));
  check_next_step(scheduler);
}

TEST_CASE("what a coroutine has waited for is destroyed before it goes on: it is told, and has no lease", "[virtual]") {
  const bool whole_scheduler = GENERATE(false, true);
  gpu device;
  std::optional<ho::prefetch_scheduler> scheduler;
  scheduler.emplace(ho::scheduler_options{.window = 4 * slot, .observer = watched});
  ho::host_values<float> value(*scheduler, 1);
  const auto a = make_tensor(*scheduler, ho::choice::offload, 1);
  const auto b = make_tensor(*scheduler, ho::choice::offload, 2);
  auto x = make_tensor(*scheduler, ho::choice::offload, 3);
  std::unique_ptr<x_tensor> next;
  bool destroys = false;
  bool has_lease = false;
  const auto holds = [&]() -> ho::task<> {
    auto in_a = co_await *a;
    auto in_b = co_await *b;
    const auto read = co_await value.read(in_b.data(), 1, nullptr);  // the other coroutine comes to wait for room
    CHECK(read[0] == 2);
    in_a.end();  // there is room for x
    if (!destroys) co_return;
    if (whole_scheduler) {
      scheduler.reset();
      co_return;
    }
    x.reset();
    next = std::make_unique<x_tensor>(*scheduler, 10 * n, ho::layer_position{}, ho::choice::save);
  };
  const auto waits = [&]() -> ho::task<> {
    auto in = co_await *x;
    has_lease = true;
  };
  const auto train = [&]() -> ho::task<> { co_await ho::when_all(holds(), waits()); };
  for (int step = 0; step < 3; ++step) scheduler->run(train);  // what one coroutine needs is known from here on
  CHECK(std::exchange(has_lease, false));
  destroys = true;
  CHECK_THROWS_WITH(scheduler->run(train),
                    has_text(whole_scheduler ? "the scheduler has been destroyed"
                                             : "tensor x[0] was destroyed while a lease on it was held"));
  CHECK_FALSE(has_lease);
  if (!whole_scheduler) check_next_step(*scheduler);
}

TEST_CASE("a tensor whose writable lease is left by an exception has no values") {
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload);
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .observer = watched});
  x_tensor x(scheduler, n, {}, placed);
  ho::step s(scheduler);
  try {
    auto out = x.produce(nullptr);
    throw std::runtime_error("no data");
  } catch (const std::runtime_error&) {
    CHECK_THROWS_WITH(x.fetch(nullptr), has_text("tensor x[0] has no values"));
    auto out = x.produce(nullptr);  // ends well, in the handler too
    fill(nullptr, out.data(), n, 5);
  }
  auto in = x.fetch(nullptr);
  const seen values(nullptr, in.data(), n);
  in.end();
  s.end();
  CHECK(values.is(5));
  CHECK(scheduler.report().copies_out == (placed == ho::choice::offload ? 1 : 0));
}

TEST_CASE("define functions that throw before they are coroutines, or give a task that is none") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .observer = watched});
  x_tensor x(scheduler, n, {}, ho::choice::offload);
  std::string how = "throws";
  const auto inner = [](std::span<float> out) -> ho::task<> {
    fill(nullptr, out.data(), out.size(), 1);
    co_return;
  };
  x.define([&](std::span<float> out) -> ho::task<> {
    if (how == "throws") throw std::runtime_error("no data");
    auto made = inner(out);
    auto moved = how == "moved" ? std::move(made) : inner(out);
    return made;
  });
  seen values(n);
  const auto train = [&]() -> ho::task<> {
    for (const auto& [way, error] :
         {std::pair{"throws", "no data"}, std::pair{"moved", "a task that was moved from is awaited"}}) {
      how = way;
      std::string told;
      try {
        auto in = co_await x;
      } catch (const std::exception& e) {
        told = e.what();
      }
      CHECK(told == error);
      CHECK_THROWS_WITH(x.fetch(nullptr), error);
    }
    how = "right";
    auto in = co_await x;
    values.look(nullptr, in.data());
  };
  scheduler.run(train);
  CHECK(values.is(1));
  check_next_step(scheduler);
}

TEST_CASE("a task is awaited once, and not after it was moved from") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = slot});
  const auto twice = []() -> ho::task<> {
    auto task = nothing();
    co_await task;
    co_await task;
  };
  CHECK_THROWS_WITH(scheduler.run(twice), has_text("a task is awaited once"));
  const auto moved = []() -> ho::task<> {
    auto task = nothing();
    auto other = std::move(task);
    co_await task;  // NOLINT(bugprone-use-after-move): the test
  };
  CHECK_THROWS_WITH(scheduler.run(moved), has_text("a task that was moved from is awaited"));
  const auto several = []() -> ho::task<> {
    auto task = nothing();
    co_await task;
    auto all = ho::when_all(nothing(), std::move(task));
    co_await all;
  };
  CHECK_THROWS_WITH(scheduler.run(several), has_text("a task is awaited once"));
  auto stored = nothing();
  const auto begin = [&] { return std::move(stored); };
  CHECK_NOTHROW(scheduler.run(begin));
  CHECK_THROWS_WITH(scheduler.run(begin), has_text("a task that was moved from is awaited"));
  CHECK_NOTHROW(scheduler.run(nothing));
}

TEST_CASE("a step ends once") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .observer = watched});
  const auto x = make_tensor(scheduler, ho::choice::offload, 1);
  ho::step ended(scheduler);
  ended.end();
  CHECK_THROWS_WITH(ended.end(), "a step ends once");
  {
    ho::step other(scheduler);
    auto in = x->fetch(nullptr);
    CHECK_THROWS_WITH(ended.end(), "a step ends once");
    const seen values(nullptr, in.data(), n);
    in.end();
    other.end();
    CHECK(values.is(1));
  }
  check_next_step(scheduler);
}

TEST_CASE("a scheduler is destroyed while its step runs: an error, and a quiet end") {
  gpu device;
  auto scheduler =
      std::make_unique<ho::prefetch_scheduler>(ho::scheduler_options{.window = 2 * slot, .observer = watched});
  SECTION("before the end of a step in straight lines") {
    const auto x = make_tensor(*scheduler, ho::choice::offload, 1);
    ho::step s(*scheduler);
    auto in = x->fetch(nullptr);
    scheduler.reset();
    CHECK_THROWS_WITH(s.end(), has_text("the scheduler has been destroyed"));
  }
  SECTION("before the destructor of a step") {
    const ho::step s(*scheduler);
    scheduler.reset();
  }
  SECTION("by the step's coroutine") {
    const auto x = make_tensor(*scheduler, ho::choice::offload, 1);
    const bool goes_on = GENERATE(false, true);
    const auto train = [&]() -> ho::task<> {
      auto in = co_await *x;
      scheduler.reset();
      if (goes_on) auto more = co_await *x;
    };
    CHECK_THROWS_WITH(scheduler->run(train), has_text("the scheduler has been destroyed"));
  }
  SECTION("by a define function") {
    x_tensor x(*scheduler, n, {}, ho::choice::offload);
    const bool coroutine = GENERATE(false, true);
    const auto make = [&](std::span<float> out) {
      fill(nullptr, out.data(), out.size(), 1);
      scheduler.reset();
    };
    if (coroutine) {
      x.define([&](std::span<float> out) -> ho::task<> {
        make(out);
        co_return;
      });
    } else {
      x.define(make);
    }
    const auto train = [&]() -> ho::task<> { auto in = co_await x; };
    CHECK_THROWS_WITH(scheduler->run(train), has_text("the scheduler has been destroyed"));
  }
}

TEST_CASE("a coroutine waits for what belongs to another scheduler: an error, and the other one is as before") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = slot}), other({.window = 2 * slot, .observer = watched});
  ho::host_values<float> value(other, 1);
  x_tensor x(other, n, {}, ho::choice::offload);
  x.define([](std::span<float> out) -> ho::task<> {
    fill(nullptr, out.data(), out.size(), 1);
    co_return;
  });
  const auto makes = [&]() -> ho::task<> { auto in = co_await x; };
  const auto reads = [&]() -> ho::task<> {
    auto in = x.fetch(nullptr);
    auto first = co_await value.read(in.data(), 1, nullptr);
    CHECK(first[0] == 1);
  };
  {
    ho::step s(other);
    CHECK_THROWS_WITH(scheduler.run(makes), has_text("of another scheduler than runs it"));
    CHECK_THROWS_WITH(scheduler.run(reads), has_text("of another scheduler than runs it"));
    { auto last = std::move(x).fetch(nullptr); }
    auto a = x.produce(nullptr);
    fill(nullptr, a.data(), n, 1);
    CHECK_THROWS_WITH(scheduler.run(makes), has_text("its writable lease has to end before it is read"));
    a.end();
    s.end();
  }
  const auto both = [&]() -> ho::task<> { co_await ho::when_all(makes(), reads()); };
  for (int step = 0; step < 3; ++step) CHECK_NOTHROW(other.run(both));
  check_next_step(other);
}

TEST_CASE("host_values that two coroutines read at one time") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4 * slot, .observer = watched});
  ho::host_values<float> shared(scheduler, 1);
  std::array<ho::host_values<float>, 2> own{ho::host_values<float>(scheduler, 1), ho::host_values<float>(scheduler, 1)};
  const std::array tensors{make_tensor(scheduler, ho::choice::offload, 1),
                           make_tensor(scheduler, ho::choice::offload, 2)};
  std::array<float, 2> read{};
  const auto use = [&](std::size_t i, ho::host_values<float>& values) -> ho::task<> {
    auto in = co_await *tensors[i];
    auto here = co_await values.read(in.data(), 1, nullptr);
    read[i] = here[0];
  };
  for (int step = 0; step < 4; ++step) {  // from the third on side by side
    const auto train = [&]() -> ho::task<> { co_await ho::when_all(use(0, own[0]), use(1, own[1])); };
    scheduler.run(train);
    CHECK(read == std::array{1.0F, 2.0F});
  }
  const auto train = [&]() -> ho::task<> { co_await ho::when_all(use(0, shared), use(1, shared)); };
  CHECK_THROWS_WITH(scheduler.run(train), has_text("host_values is read while another read of it is awaited"));
  CHECK(read[0] == 1);
  const auto alone = [&]() -> ho::task<> { co_await use(1, shared); };
  scheduler.run(alone);
  CHECK(read[1] == 2);
}

TEST_CASE("a group of one tensor twice, or of tensors of two schedulers") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .observer = watched}), other({.window = slot});
  x_tensor x(scheduler, n, {}, ho::choice::offload);
  x_tensor y(other, n, {}, ho::choice::offload);
  const auto make = [](std::span<float> a, std::span<float> b) {
    fill(nullptr, a.data(), a.size(), 1);
    fill(nullptr, b.data(), b.size(), 1);
  };
  CHECK_THROWS_WITH(ho::define_group(make, x, x), has_text("tensor x[0] is in its group twice"));
  CHECK_THROWS_WITH(ho::define_group(make, x, y), has_text("the tensors of one group belong to one scheduler"));
  x.define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 1); });
  check_next_step(scheduler);
}

TEST_CASE("memory of the caller's that is of another kind, or not aligned") {
  gpu device;
  const ho::device_allocation on_device(4_KiB);
  const ho::pinned_allocation pinned(4_KiB);
  std::vector<std::byte> pageable(4_KiB);
  const auto build = [](const ho::scheduler_options& options) { const ho::prefetch_scheduler scheduler(options); };
  auto region = on_device.region();
  CHECK_NOTHROW(build({.window = slot, .device_memory = region, .host_memory = pinned.region()}));
  CHECK_THROWS_WITH(build({.window = slot, .host_memory = {pageable.data(), pageable.size()}}),
                    has_text("the host_memory given is not pinned"));
  CHECK_THROWS_WITH(build({.window = slot, .device_memory = pinned.region()}),
                    has_text("the device_memory given is host memory"));
  region = {static_cast<std::byte*>(region.begin) + 4, region.bytes - 4};
  CHECK_THROWS_WITH(build({.window = slot, .device_memory = region}), has_text("at a multiple of 256 bytes"));
}

TEST_CASE("more streams with leases at one time than a scheduler keeps apart") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .observer = watched});
  const auto x = make_tensor(scheduler, ho::choice::offload, 1);
  std::vector<ho::stream> streams(6);
  ho::step s(scheduler);
  std::vector<ho::lease<const float>> leases;
  for (std::size_t i = 0; i < 5; ++i) leases.push_back(x->fetch(streams[i].get()));
  CHECK_THROWS_WITH(x->fetch(streams[5].get()),
                    has_text("leases on more than 5 streams beside the scheduler's own at one time"));
  leases.pop_back();
  leases.push_back(x->fetch(streams[5].get()));
  const seen values(streams[5].get(), leases.back().data(), n);
  leases.clear();
  s.end();
  CHECK(values.is(1));
  check_next_step(scheduler);
}

TEST_CASE("a kernel that declares more byte ranges than there is room for") {
  gpu device;
  const float* const p = nullptr;
  const auto none = [](std::size_t) {};
  CHECK_THROWS_WITH(
      ho::launch(nullptr, 1, none,
                 {.name = "wide",
                  .reads = {{p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0},
                            {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0},
                            {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}, {p, 0}}}),
      "kernel wide declares more than 32 byte ranges");
}
