// The window is a hard bound: never exceeded, and at its least a step is slow but right.

#include "gpu.hpp"

#include <memory>
#include <random>
#include <vector>

using namespace ho::literals;

namespace {

enum class name { q, k, v, gate, up, act };
template <name Name>
using tensor = ho::offload_tensor<float, ho::any_placement<Name>>;

/// A layer as in a transformer: q, k, v by one function; gate and up; act from both.
struct layer {
  layer(ho::prefetch_scheduler& scheduler, std::size_t index, std::size_t layers, ho::choice placed)
      : q(scheduler, 4 * unit, {index, layers}, placed),
        k(scheduler, unit, {index, layers}, placed),
        v(scheduler, unit, {index, layers}, placed),
        gate(scheduler, 14 * unit, {index, layers}, placed),
        up(scheduler, 14 * unit, {index, layers}, placed),
        act(scheduler, 14 * unit, {index, layers}, placed) {
    const auto first = static_cast<float>(100 * index);
    const auto make = [first](std::span<float> a, std::span<float> b, std::span<float> c) {
      fill(nullptr, a.data(), a.size(), first);
      fill(nullptr, b.data(), b.size(), first + 1);
      fill(nullptr, c.data(), c.size(), first + 2);
    };
    ho::define_group(make, q, k, v);
    gate.define([first](std::span<float> out) { fill(nullptr, out.data(), out.size(), first + 3); });
    up.define([first](std::span<float> out) { fill(nullptr, out.data(), out.size(), first + 4); });
    act.define([this](std::span<float> out) -> ho::task<> {
      auto a = co_await gate;
      auto b = co_await up;
      add(nullptr, a.data(), b.data(), out.data(), out.size());
    });
  }

  static constexpr std::size_t unit = 64;                          // 256 bytes
  static constexpr std::size_t least = 42 * unit * sizeof(float);  // gate, up and act at one time

  tensor<name::q> q;
  tensor<name::k> k;
  tensor<name::v> v;
  tensor<name::gate> gate;
  tensor<name::up> up;
  tensor<name::act> act;
};

struct result {
  std::vector<std::vector<float>> values;
  ho::step_report report;
  double seconds = 0;
};

template <class Tensor>
ho::task<> look_at(Tensor& t, std::vector<std::unique_ptr<seen>>& all) {
  auto in = co_await t;
  all.push_back(std::make_unique<seen>(nullptr, in.data(), in.size()));
}

template <class Tensor>
ho::task<> look_last(Tensor& t, std::vector<std::unique_ptr<seen>>& all) {
  auto in = co_await std::move(t);
  busy(nullptr, 1e-6);
  all.push_back(std::make_unique<seen>(nullptr, in.data(), in.size()));
}

ho::task<> train(std::vector<std::unique_ptr<layer>>& layers, std::vector<std::unique_ptr<seen>>& all) {
  for (auto& l : layers) {
    co_await look_at(l->q, all);
    co_await look_at(l->act, all);
  }
  for (std::size_t i = layers.size(); i-- > 0;) {
    layer& l = *layers[i];
    co_await look_last(l.act, all);
    {
      auto gate = co_await std::move(l.gate);
      auto up = co_await std::move(l.up);
      all.push_back(std::make_unique<seen>(nullptr, gate.data(), gate.size()));
      all.push_back(std::make_unique<seen>(nullptr, up.data(), up.size()));
    }
    auto q = co_await std::move(l.q);
    auto k = co_await std::move(l.k);
    auto v = co_await std::move(l.v);
    all.push_back(std::make_unique<seen>(nullptr, q.data(), q.size()));
    all.push_back(std::make_unique<seen>(nullptr, k.data(), k.size()));
    all.push_back(std::make_unique<seen>(nullptr, v.data(), v.size()));
  }
}

result run(std::size_t window, ho::choice placed, bool overlap = true) {
  ho::prefetch_scheduler scheduler({.window = window, .overlap = overlap, .observer = watched});
  std::vector<std::unique_ptr<layer>> layers;
  for (std::size_t i = 0; i < 5; ++i) layers.push_back(std::make_unique<layer>(scheduler, i, 5, placed));
  result r;
  for (int step = 0; step < 4; ++step) {
    std::vector<std::unique_ptr<seen>> all;
    const double begin = vg::now();
    scheduler.run([&] { return train(layers, all); });
    r.values.clear();
    for (auto& s : all) r.values.push_back(s->values());
    r.seconds = vg::now() - begin;
  }
  r.report = scheduler.report();
  return r;
}

/// Levels as in a U-Net: wide from skip, of the level above, and from what the level below puts out.
struct u_net {
  struct level {
    level(ho::prefetch_scheduler& s, std::size_t n, ho::layer_position at)
        : skip(s, n, at, ho::choice::offload),
          wide(s, 3 * n, at, ho::choice::offload),
          narrow(s, n, at, ho::choice::offload),
          out(s, n, at, ho::choice::offload) {}
    tensor<name::q> skip;
    tensor<name::k> wide;
    tensor<name::v> narrow;
    tensor<name::up> out;
  };
  static constexpr std::size_t last = 3;

  u_net(ho::prefetch_scheduler& scheduler, std::size_t n) {
    for (std::size_t l = 0; l <= last; ++l)
      all.push_back(std::make_unique<level>(scheduler, n, ho::layer_position{l, last + 1}));
    for (std::size_t l = 0; l <= last; ++l) {
      all[l]->skip.define([this, l](std::span<float> out) -> ho::task<> {
        if (l == 0) {
          fill(nullptr, out.data(), out.size(), 1);
          co_return;
        }
        auto above = co_await all[l - 1]->skip;
        add(nullptr, above.data(), above.data(), out.data(), out.size(), 1);
      });
      all[l]->wide.define([this, l](std::span<float> out) -> ho::task<> {
        auto skip = co_await all[l]->skip;
        const auto make = [&](const ho::lease<const float>& below) {
          for (std::size_t part = 0; part < 3; ++part)
            add(nullptr, skip.data(), below.data(), out.data() + part * skip.size(), skip.size());
        };
        if (l + 1 == last) {
          auto below = co_await all[last]->skip;
          make(below);
        } else {
          auto below = co_await all[l + 1]->out;
          make(below);
        }
      });
      all[l]->narrow.define([this, l](std::span<float> out) -> ho::task<> {
        auto wide = co_await all[l]->wide;
        add(nullptr, wide.data(), wide.data() + 2 * out.size(), out.data(), out.size());
      });
      all[l]->out.define([this, l](std::span<float> out) -> ho::task<> {
        auto narrow = co_await all[l]->narrow;
        add(nullptr, narrow.data(), narrow.data(), out.data(), out.size(), 2);
      });
    }
  }
  ho::task<> forward(std::vector<std::unique_ptr<seen>>& values) {
    for (auto& l : all) co_await look_at(l->skip, values);
    for (std::size_t l = last; l-- > 0;) co_await look_at(all[l]->out, values);
  }
  ho::task<> backward(std::vector<std::unique_ptr<seen>>& values) {
    for (std::size_t l = 0; l < last; ++l) {
      co_await look_last(all[l]->narrow, values);
      co_await look_last(all[l]->wide, values);
    }
    for (std::size_t l = last + 1; l-- > 0;) co_await look_last(all[l]->skip, values);
  }

  std::vector<std::unique_ptr<level>> all;
};

/// Three steps of training, then two of evaluation with tensors of its own.
result train_and_evaluate(std::size_t window, std::size_t n, std::size_t larger) {
  ho::prefetch_scheduler scheduler({.window = window, .observer = watched});
  u_net model(scheduler, n), evaluated(scheduler, larger);
  std::vector<std::unique_ptr<seen>> all;
  const auto train = [&]() -> ho::task<> {
    co_await model.forward(all);
    co_await model.backward(all);
  };
  for (int step = 0; step < 3; ++step) scheduler.run(train);
  for (int step = 0; step < 2; ++step) scheduler.run([&] { return evaluated.forward(all); });
  result r;
  for (auto& s : all) r.values.push_back(s->values());
  r.report = scheduler.report();
  return r;
}

}  // namespace

TEST_CASE("every window from the least to unlimited gives the values of save") {
  gpu device;
  const std::vector<std::vector<float>> reference = run(ho::unlimited, ho::choice::save).values;
  REQUIRE(reference.size() == 5 * 8);
  const std::size_t least = run(ho::unlimited, ho::choice::offload).report.least_window_bytes;
  CHECK(least == layer::least);
  for (const bool overlap : {true, false}) {
    for (std::size_t window = least; window <= 3 * least; window += 7 * 256) {
      INFO("window " << window << (overlap ? ", overlapped" : ", in the compute stream"));
      const result r = run(window, ho::choice::offload, overlap);
      CHECK(r.values == reference);
      CHECK(r.report.window_peak_bytes <= window);
      CHECK(r.report.least_window_bytes == least);
      CHECK(r.report.device_bytes == window);
    }
  }
  CHECK(run(ho::unlimited, ho::choice::remat).values == reference);
}

TEST_CASE("tensors that are larger than those of all steps before: their first step too passes in its least window") {
  gpu device;
  for (const std::size_t larger : {4U, 5U, 6U, 7U, 9U}) {
    for (const std::size_t smaller : {2U, 3U, 4U}) {
      INFO("tensors of " << larger << " units after some of " << smaller);
      const result wide = train_and_evaluate(ho::unlimited, smaller * layer::unit, larger * layer::unit);
      const std::size_t least = wide.report.least_window_bytes;
      CHECK(least == 7 * larger * layer::unit * sizeof(float));  // out, narrow, wide, skip and what is below
      for (std::size_t window = least; window <= least + 16 * 256; window += 256) {
        INFO("window " << window);
        const result r = train_and_evaluate(window, smaller * layer::unit, larger * layer::unit);
        CHECK(r.values == wide.values);
        CHECK(r.report.window_peak_bytes <= window);
      }
    }
  }
}

TEST_CASE("below the least window the error states the tensor, who holds the window and what would do") {
  gpu device;
  try {
    run(layer::least - 256, ho::choice::offload);
    FAIL("no error");
  } catch (const ho::window_error& e) {
    CHECK(e.needed() == layer::least);
    CHECK(e.window() == layer::least - 256);
    CHECK_THAT(
        e.what(),
        has_text(
            "tensor up[0] needs 3584 bytes while these are in use: gate[0] 3584, act[0] 3584; a window of at least"));
  }
}

TEST_CASE("what is in use divides the window: the error says which window to try, and that one passes") {
  gpu device;
  const auto step_in = [](std::size_t window) {
    ho::prefetch_scheduler scheduler({.window = window, .observer = watched});
    tensor<name::q> first(scheduler, layer::unit, {}, ho::choice::offload);
    tensor<name::k> second(scheduler, layer::unit, {}, ho::choice::offload);
    tensor<name::v> large(scheduler, 3 * layer::unit, {}, ho::choice::offload);
    ho::step s(scheduler);
    auto a = first.produce(nullptr);
    fill(nullptr, a.data(), a.size(), 1);
    auto b = second.produce(nullptr);
    fill(nullptr, b.data(), b.size(), 2);
    a.end();
    auto c = large.produce(nullptr);
    fill(nullptr, c.data(), c.size(), 3);
    c.end();
    b.end();
    s.end();
  };
  try {
    step_in(1_KiB);
    FAIL("no error");
  } catch (const ho::window_error& e) {
    CHECK(e.needed() == 1280);
    CHECK_THAT(e.what(), has_text("in use: k[0] 256; these bytes divide the window, the largest piece left has 512 "
                                  "bytes: try a window of 1280 bytes, or end leases in the reverse order"));
  }
  CHECK_NOTHROW(step_in(1280));
}

TEST_CASE("a window larger than the device's memory is out_of_memory and says what to change") {
  gpu device;
  constexpr std::size_t bytes = std::size_t{1} << 50U;
  try {
    ho::prefetch_scheduler scheduler({.window = bytes});
    FAIL("no error");
  } catch (const ho::out_of_memory& e) {
    CHECK(e.requested() == bytes);
    CHECK_THAT(e.what(), has_text("1125899906842624 bytes were requested for the window: give scheduler_options a "
                                  "smaller one"));
  }
}

TEST_CASE("a window of no bytes holds no offloaded tensor, and other placements do not need one") {
  gpu device;
  CHECK_NOTHROW(run(0, ho::choice::save));
  CHECK_NOTHROW(run(0, ho::choice::remat));
  CHECK_THROWS_AS(run(0, ho::choice::offload), ho::window_error);
}

TEST_CASE("after a window error the scheduler is as before") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 8_KiB, .observer = watched});
  tensor<name::q> small(scheduler, 1000, {}, ho::choice::offload);
  tensor<name::k> large(scheduler, 3000, {}, ho::choice::offload);
  CHECK_THROWS_AS(scheduler.run([&]() -> ho::task<> {
    auto a = small.produce(nullptr);
    fill(nullptr, a.data(), a.size(), 1);
    auto b = large.produce(nullptr);
    co_return;
  }),
                  ho::window_error);
  ho::step s(scheduler);
  {
    auto out = small.produce(nullptr);
    fill(nullptr, out.data(), out.size(), 2);
  }
  auto in = small.fetch(nullptr);
  const seen values(nullptr, in.data(), in.size());
  in.end();
  s.end();
  CHECK(values.is(2));
}

TEST_CASE("copies hide behind kernels when the window has room for the next tensors, and not otherwise", "[virtual]") {
  gpu device;
  constexpr std::size_t n = 1U << 20U;  // 4 MiB: 22 µs out, 21 µs in at GB200's rates
  const auto time_of = [&](std::size_t window, bool overlap) {
    ho::prefetch_scheduler scheduler({.window = window, .overlap = overlap, .observer = watched});
    std::vector<std::unique_ptr<tensor<name::q>>> tensors;
    for (std::size_t i = 0; i < 8; ++i) {
      tensors.push_back(std::make_unique<tensor<name::q>>(scheduler, n, ho::layer_position{i, 8}, ho::choice::offload));
    }
    double seconds = 0;
    for (int step = 0; step < 3; ++step) {
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      const double begin = vg::now();
      ho::step s(scheduler);
      for (auto& t : tensors) {
        auto out = t->produce(nullptr);
        fill(nullptr, out.data(), n, 1);
        busy(nullptr, 100e-6);
      }
      for (std::size_t i = tensors.size(); i-- > 0;) {
        auto in = std::move(*tensors[i]).fetch(nullptr);
        busy(nullptr, 100e-6);
      }
      s.end();
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      seconds = vg::now() - begin;
    }
    return seconds;
  };
  const double all_fits = time_of(ho::unlimited, true);
  CHECK(time_of(4 * n * sizeof(float), true) < 1.02 * all_fits);
  CHECK(time_of(4 * n * sizeof(float), false) > 1.15 * all_fits);
  CHECK(time_of(n * sizeof(float), true) > 1.05 * all_fits);
}

TEST_CASE("slots are aligned to 256 bytes and carved from memory that the caller gives", "[virtual]") {
  gpu device;
  constexpr std::size_t bytes = 256_KiB;
  ho::device_allocation memory(bytes);
  ho::pinned_allocation host(64_KiB);
  const auto* const begin = static_cast<std::byte*>(memory.region().begin);
  {
    ho::prefetch_scheduler scheduler(
        {.window = 16_KiB, .device_memory = memory.region(), .host_memory = host.region(), .observer = watched});
    tensor<name::q> a(scheduler, 777, {}, ho::choice::offload);
    tensor<name::k> b(scheduler, 333, {}, ho::choice::save);
    tensor<name::v> c(scheduler, 111, {}, ho::choice::remat);
    c.define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 1); });
    vg::reset_call_counts();
    ho::step s(scheduler);
    const auto inside = [&](const float* p, std::size_t n) {
      const auto* const at = reinterpret_cast<const std::byte*>(p);
      CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
      CHECK((at >= begin && at + n * sizeof *p <= begin + bytes));
    };
    auto x = a.produce(nullptr);
    fill(nullptr, x.data(), x.size(), 1);
    inside(x.data(), x.size());
    auto y = b.produce(nullptr);
    fill(nullptr, y.data(), y.size(), 1);
    inside(y.data(), y.size());
    auto z = c.fetch(nullptr);
    inside(z.data(), z.size());
    for (auto* l : {&x, &y}) l->end();
    z.end();
    s.end();
    CHECK(vg::calls("cudaMalloc") == 0);
    CHECK(vg::calls("cudaHostAlloc") == 0);
  }
  CHECK_THROWS_WITH(ho::prefetch_scheduler({.window = 1_MiB, .device_memory = memory.region()}),
                    has_text("does not fit into the device memory given, 262144 bytes"));
}

TEST_CASE("random sizes, orders and windows: values are right and the bound holds") {
  gpu device;
  vg::record_timeline(false);
  const auto seed = static_cast<unsigned>(Catch::rngSeed() != 0 ? Catch::rngSeed() : 20240);
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t from, std::size_t to) { return from + random() % (to - from + 1); };
  for (int round = 0; round < 60; ++round) {
    const std::size_t count = pick(1, 12);
    std::size_t largest_pair = 0;
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < count; ++i) {
      sizes.push_back(pick(1, 3000));
      largest_pair = std::max(largest_pair, 2 * (sizes.back() * sizeof(float) + 512));
    }
    const std::size_t window = largest_pair + 256 * pick(0, 100);
    ho::prefetch_scheduler scheduler({.window = window, .observer = watched});
    std::vector<std::unique_ptr<tensor<name::q>>> tensors;
    for (std::size_t i = 0; i < count; ++i) {
      const auto placed = static_cast<ho::choice>(pick(0, 2));
      tensors.push_back(std::make_unique<tensor<name::q>>(scheduler, sizes[i], ho::layer_position{i, count}, placed));
      tensors.back()->define(
          [i](std::span<float> out) { fill(nullptr, out.data(), out.size(), static_cast<float>(100 * i)); });
    }
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < 3 * count; ++i) order.push_back(pick(0, count - 1));
    for (int step = 0; step < 3; ++step) {
      std::vector<std::unique_ptr<seen>> all;
      const auto use = [&]() -> ho::task<> {
        for (auto& t : tensors) co_await look_at(*t, all);
        for (const std::size_t i : order) co_await look_at(*tensors[i], all);
        for (std::size_t i = count; i-- > 0;) co_await look_last(*tensors[i], all);
      };
      scheduler.run(use);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const std::size_t which = i < count ? i : (i < 4 * count ? order[i - count] : 5 * count - 1 - i);
        INFO("round " << round << " step " << step << " use " << i << " of tensor " << which);
        REQUIRE(all[i]->is(static_cast<float>(100 * which)));
      }
      CHECK(scheduler.report().window_peak_bytes <= window);
    }
  }
}
