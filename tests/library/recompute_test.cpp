// Recomputation: what is dropped is made again by its define function, from inputs that may have been put away
// themselves.

#include "gpu.hpp"

#include <memory>
#include <vector>

using namespace ho::literals;

namespace {

enum class name { a, b, c, d };
template <name Name>
using tensor = ho::offload_tensor<float, ho::any_placement<Name>>;

constexpr std::size_t n = 500;

/// a is made, b = a + a, c = a + b, d = b + c.
struct chain {
  chain(ho::prefetch_scheduler& scheduler, ho::choice pa, ho::choice pb, ho::choice pc, ho::choice pd)
      : a(scheduler, n, {}, pa), b(scheduler, n, {}, pb), c(scheduler, n, {}, pc), d(scheduler, n, {}, pd) {
    a.define([this](std::span<float> out) {
      ++made_a;
      fill(nullptr, out.data(), out.size(), first);
    });
    b.define([this](std::span<float> out) -> ho::task<> {
      ++made_b;
      auto x = co_await a;
      add(nullptr, x.data(), x.data(), out.data(), out.size());
    });
    c.define([this](std::span<float> out) {  // a plain function fetches, also what coroutines make
      ++made_c;
      auto x = a.fetch(nullptr);
      auto y = b.fetch(nullptr);
      add(nullptr, x.data(), y.data(), out.data(), out.size());
    });
    d.define([this](std::span<float> out) -> ho::task<> {
      ++made_d;
      auto x = co_await b;
      auto y = co_await c;
      add(nullptr, x.data(), y.data(), out.data(), out.size());
    });
  }

  float first = 1;
  int made_a = 0, made_b = 0, made_c = 0, made_d = 0;
  tensor<name::a> a;
  tensor<name::b> b;
  tensor<name::c> c;
  tensor<name::d> d;
};

template <class Tensor>
ho::task<> look_last(Tensor& t, std::vector<std::unique_ptr<seen>>& all) {
  auto in = co_await std::move(t);
  all.push_back(std::make_unique<seen>(nullptr, in.data(), n));
}

/// The factor of element i's value: d = 5 a.
void check(const std::vector<std::unique_ptr<seen>>& all, float first) {
  REQUIRE(all.size() == 4);
  const float factors[] = {5, 3, 2, 1};
  for (std::size_t t = 0; t < 4; ++t) {
    for (std::size_t i = 0; i < n; ++i) REQUIRE(all[t]->values()[i] == factors[t] * (first + static_cast<float>(i)));
  }
}

}  // namespace

TEST_CASE("chains over all placements give the same values") {
  const auto pick = [](int i) { return static_cast<ho::choice>(i); };
  gpu device;
  for (int combination = 0; combination < 81; ++combination) {
    ho::prefetch_scheduler scheduler({.window = 8_KiB, .observer = watched});
    chain all(scheduler, pick(combination % 3), pick(combination / 3 % 3), pick(combination / 9 % 3),
              pick(combination / 27));
    for (int step = 0; step < 3; ++step) {
      all.first = static_cast<float>(step);
      std::vector<std::unique_ptr<seen>> values;
      const auto train = [&]() -> ho::task<> {
        { auto forward = co_await all.d; }
        co_await look_last(all.d, values);
        co_await look_last(all.c, values);
        co_await look_last(all.b, values);
        co_await look_last(all.a, values);
      };
      scheduler.run(train);
      INFO("combination " << combination << ", step " << step);
      check(values, all.first);
    }
  }
}

TEST_CASE("once a step is known, a tensor is dropped only between forward and backward") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 0, .observer = watched});
  chain all(scheduler, ho::choice::remat, ho::choice::remat, ho::choice::save, ho::choice::save);
  for (int step = 0; step < 4; ++step) {
    all.made_a = all.made_b = 0;
    std::vector<std::unique_ptr<seen>> values;
    const auto train = [&]() -> ho::task<> {
      { auto forward = co_await all.d; }
      busy(nullptr, 1e-6);
      co_await look_last(all.d, values);
      co_await look_last(all.c, values);
      co_await look_last(all.b, values);
      co_await look_last(all.a, values);
    };
    scheduler.run(train);
    check(values, 1);
    if (step >= 1) {
      INFO("step " << step);
      CHECK(all.made_a == 2);
      CHECK(all.made_b == 2);
    }
  }
}

TEST_CASE("an input whose life is over is made again for a recomputation, and leaves nothing behind") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 8_KiB, .observer = watched});
  const ho::choice placed_a = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  chain all(scheduler, placed_a, ho::choice::remat, ho::choice::save, ho::choice::save);
  for (int step = 0; step < 3; ++step) {
    for (int micro = 0; micro < 2; ++micro) {  // in one step: stale values of the first would show in the second
      all.first = static_cast<float>(10 * step + micro);
    }
    std::vector<std::vector<std::unique_ptr<seen>>> values(2);
    const auto train = [&]() -> ho::task<> {
      for (int micro = 0; micro < 2; ++micro) {
        all.first = static_cast<float>(10 * step + micro);
        auto& these = values[static_cast<std::size_t>(micro)];
        { auto forward = co_await all.d; }
        co_await look_last(all.d, these);
        co_await look_last(all.c, these);
        std::vector<std::unique_ptr<seen>> a_first;
        co_await look_last(all.a, a_first);  // before b, which is made from it
        co_await look_last(all.b, these);
        these.push_back(std::move(a_first.front()));
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);  // `first` is read when the kernel runs
      }
    };
    scheduler.run(train);
    check(values[0], static_cast<float>(10 * step));
    check(values[1], static_cast<float>(10 * step + 1));
  }
}

static void fill_halves(std::span<double> out) {
  double* const to = out.data();
  ho::launch(nullptr, out.size(), [=] HOSTOFFLOAD_DEVICE(std::size_t i) { to[i] = 0.5 * static_cast<double>(i); },
             {.name = "halves", .writes = {{to, out.size_bytes()}}});
}

TEST_CASE("a group is made by one function, members that hold values are not written again") {
  gpu device;
  const ho::choice pq = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  const ho::choice pk = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  ho::prefetch_scheduler scheduler({.window = 4_KiB, .observer = watched});
  tensor<name::a> q(scheduler, n, {}, pq);
  ho::offload_tensor<double, ho::any_placement<name::b>> k(scheduler, n / 5, {}, pk);
  int made = 0;
  const auto make = [&](std::span<float> a, std::span<double> b) -> ho::task<> {
    ++made;
    fill(nullptr, a.data(), a.size(), 1);
    fill_halves(b);
    co_return;
  };
  ho::define_group(make, q, k);
  std::vector<double> from_k(n / 5);
  for (int step = 0; step < 4; ++step) {
    made = 0;
    std::vector<std::unique_ptr<seen>> from_q;
    const auto train = [&]() -> ho::task<> {
      {
        auto a = co_await q;
        from_q.push_back(std::make_unique<seen>(nullptr, a.data(), n));
      }
      { auto b = co_await k; }
      busy(nullptr, 1e-6);
      {
        auto a = co_await std::move(q);
        from_q.push_back(std::make_unique<seen>(nullptr, a.data(), n));
      }
      auto b = co_await std::move(k);
      ho::check(cudaMemcpy(from_k.data(), b.data(), b.size() * sizeof(double), cudaMemcpyDeviceToHost), "cudaMemcpy");
    };
    scheduler.run(train);
    CHECK(from_q[0]->is(1));
    CHECK(from_q[1]->is(1));
    for (std::size_t i = 0; i < from_k.size(); ++i) REQUIRE(from_k[i] == 0.5 * static_cast<double>(i));
    const bool again = pq == ho::choice::remat || pk == ho::choice::remat;
    if (step >= 1) CHECK(made == (again ? 2 : 1));
  }
}

TEST_CASE("an exception in a define function reaches the await, and the scheduler goes on") {
  gpu device;
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  ho::prefetch_scheduler scheduler({.window = 8_KiB, .observer = watched});
  tensor<name::a> t(scheduler, n, {}, placed);
  tensor<name::b> u(scheduler, n, {}, placed);
  int calls = 0;
  t.define([&](std::span<float> out) -> ho::task<> {
    fill(nullptr, out.data(), out.size(), 3);
    if (++calls == 1) throw std::runtime_error("no data");
    co_return;
  });
  u.define([&](std::span<float> out) {
    auto in = t.fetch(nullptr);
    add(nullptr, in.data(), in.data(), out.data(), out.size());
  });
  seen values(n);
  const auto train = [&]() -> ho::task<> {
    bool failed = false;
    try {
      auto in = co_await u;
    } catch (const std::runtime_error& e) {
      failed = std::string(e.what()) == "no data";
    }
    CHECK(failed);
    auto in = co_await u;
    values.look(nullptr, in.data());
  };
  scheduler.run(train);
  for (std::size_t i = 0; i < n; ++i) REQUIRE(values.values()[i] == 2 * (3 + static_cast<float>(i)));
  CHECK(calls == 2);
}

TEST_CASE("a step abandoned while a group is made again, beside a member that holds values, gives all slots back") {
  gpu device;
  constexpr std::size_t slot = (n * sizeof(float) + 255) / 256 * 256;
  ho::prefetch_scheduler scheduler({.window = 2 * slot, .observer = watched});
  tensor<name::a> dropped(scheduler, n, {}, ho::choice::remat);
  tensor<name::b> held(scheduler, n, {}, ho::choice::offload);
  bool stuck = false;
  const auto make = [&](std::span<float> a, std::span<float> b) -> ho::task<> {
    fill(nullptr, a.data(), a.size(), 1);
    fill(nullptr, b.data(), b.size(), 2);
    if (stuck) co_await std::suspend_always{};
  };
  ho::define_group(make, dropped, held);
  seen from_dropped(n);
  seen from_held(n);
  const auto train = [&](bool fails) -> ho::task<> {
    stuck = false;
    { auto in = co_await dropped; }
    {
      auto in = co_await held;
      stuck = fails;
      auto again = co_await std::move(dropped);  // what it writes for the other goes aside
      from_dropped.look(nullptr, again.data());
      from_held.look(nullptr, in.data());
    }
    auto last = co_await std::move(held);
  };
  scheduler.run([&] { return train(false); });  // records: from now on the one is dropped
  for (int round = 0; round < 2; ++round) {
    CHECK_THROWS_WITH(scheduler.run([&] { return train(true); }), has_text("awaits something that no scheduler knows"));
    for (int step = 0; step < 3; ++step) {
      scheduler.run([&] { return train(false); });
      CHECK(from_dropped.is(1));
      CHECK(from_held.is(2));
      CHECK(scheduler.report().tensors.at(0).recomputed == 1);
      CHECK(scheduler.report().least_window_bytes == 2 * slot);
    }
  }
}

TEST_CASE("a chain in which each is made of the one before, twice, takes no more than one run each per recomputation") {
  gpu device;
  constexpr std::size_t length = 40;  // 2^40 runs would not end
  ho::prefetch_scheduler scheduler({.window = 1_MiB, .observer = watched});
  std::vector<std::unique_ptr<tensor<name::a>>> x, y;
  std::size_t runs = 0;
  for (std::size_t i = 0; i < length; ++i) {
    for (auto* list : {&x, &y})
      list->push_back(
          std::make_unique<tensor<name::a>>(scheduler, n, ho::layer_position{i, length}, ho::choice::remat));
    y[i]->define([&, i](std::span<float> out) -> ho::task<> {
      ++runs;
      if (i > 0) auto before = co_await *x[i - 1];
      fill(nullptr, out.data(), n, static_cast<float>(i));
    });
    x[i]->define([&, i](std::span<float> out) -> ho::task<> {
      ++runs;
      auto doubled = co_await *y[i];
      if (i > 0) auto before = co_await *x[i - 1];
      add(nullptr, doubled.data(), doubled.data(), out.data(), n);
    });
  }
  std::vector<std::unique_ptr<seen>> all;
  const auto step = [&]() -> ho::task<> {
    for (std::size_t i = 0; i < length; ++i) auto made = co_await *x[i];
    for (std::size_t i = length; i-- > 0;) {
      co_await look_last(*x[i], all);
      auto doubled = co_await std::move(*y[i]);
    }
  };
  std::size_t largest = 0;
  for (int i = 1; i <= 4; ++i) {
    runs = 0;
    scheduler.run(step);
    largest = std::max(largest, runs);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  CHECK(largest <= 4 * length * 2 * length);  // four awaits at each, and at most one run of all before it
  CHECK(runs <= 4 * length);                  // once it is known when they are used: made, and made again once
  for (std::size_t i = 0; i < all.size(); ++i) {
    const float first = 2 * static_cast<float>(length - 1 - i % length);
    CHECK(all[i]->values()[3] == first + 6);
  }
}

TEST_CASE("a group whose size is known when the program runs: made at once, and again") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 1_MiB, .observer = watched});
  using kept = tensor<name::b>;
  std::vector<std::unique_ptr<kept>> group;
  std::vector<kept*> list;
  for (const ho::choice c : {ho::choice::remat, ho::choice::save, ho::choice::offload, ho::choice::remat}) {
    group.push_back(std::make_unique<kept>(scheduler, n, ho::layer_position{}, c));
    list.push_back(group.back().get());
  }
  int runs = 0;
  ho::define_group(
      [&](std::span<const std::span<float>> out) -> ho::task<> {
        ++runs;
        CHECK(out.size() == 4);
        for (std::size_t i = 0; i < out.size(); ++i)
          fill(nullptr, out[i].data(), out[i].size(), static_cast<float>(100 * i));
        co_return;
      },
      std::span<kept* const>(list));
  for (int step = 1; step <= 3; ++step) {
    std::vector<std::unique_ptr<seen>> all;
    runs = 0;
    scheduler.run([&]() -> ho::task<> {
      for (const auto& t : group) auto first = co_await *t;
      for (const auto& t : group) co_await look_last(*t, all);
    });
    REQUIRE(all.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(all[i]->is(static_cast<float>(100 * i)));
    CHECK(runs >= 2);
  }

  CHECK_THROWS_WITH(
      ho::define_group([](std::span<const std::span<float>>) -> ho::task<> { co_return; }, std::span<kept* const>()),
      has_text("a list of tensors has at least one"));
  ho::prefetch_scheduler other({.window = 1_MiB});
  kept stranger(other, n, {}, ho::choice::save);
  kept mine(scheduler, n, {}, ho::choice::save);
  const std::vector<kept*> mixed{&mine, &stranger};
  CHECK_THROWS_WITH(ho::define_group([](std::span<const std::span<float>>) -> ho::task<> { co_return; },
                                     std::span<kept* const>(mixed)),
                    has_text("belong to one scheduler"));
}
