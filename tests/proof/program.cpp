#include "program.hpp"

#include "kernel_memory.hpp"

#include <hostoffload/launch.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace proof {

namespace vg = hostoffload::virtual_gpu;

namespace {

enum class name { a, b, c, d };
template <name Name>
using tensor = ho::offload_tensor<float, ho::any_placement<Name>>;

constexpr ho::slot_observer watched{vg::slot_taken, vg::slot_given_back};

/// out[i] = 2 in[i] + plus, or plus + i without an input.
void combine(cudaStream_t stream, const float* in, std::size_t in_count, float* out, std::size_t n, float plus) {
  ho::launch(stream, n,
             [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
               out[i] = in == nullptr ? plus + static_cast<float>(i % 97) : 0.5F * in[i % in_count] + plus;
             },
             {.name = "combine",
              .reads = {{in == nullptr ? out : in, in == nullptr ? 0 : in_count * sizeof *in}},
              .writes = {{out, n * sizeof *out}},
              .flops = 2e6});
}

}  // namespace

/// Known only when a step has run: found once per seed, on an unlimited window.
static std::map<std::uint64_t, std::size_t>& least_windows() {
  static std::map<std::uint64_t, std::size_t> known;
  return known;
}
static std::size_t least_window_of(const shape& s);

shape shape_of(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  shape s;
  s.seed = seed;
  s.layers = 1 + random() % 8;
  s.schedulers = one_in(4) ? 2 : 1;
  s.micro_batches = 1 + random() % 3;
  s.second_stream = one_in(2);
  s.straight_line = one_in(3);
  s.side_by_side = !s.straight_line && one_in(4);
  s.stops_early = one_in(4) && s.micro_batches == 1;
  s.window = one_in(8) ? 0 : 1 + static_cast<double>(random() % 4) / 1.3;
  return s;
}

std::string to_string(const shape& s) {
  std::ostringstream text;
  text << "seed " << s.seed << ": " << s.layers << " layers, " << s.schedulers << " schedulers, " << s.micro_batches
       << " micro batches" << (s.second_stream ? ", second stream" : "") << (s.straight_line ? ", straight-line" : "")
       << (s.side_by_side ? ", side by side" : "") << (s.stops_early ? ", stops early" : "") << ", window " << s.window
       << " of the least";
  return text.str();
}

/// What chance decides of a tensor.
struct drawn {
  std::size_t elements = 1;
  ho::choice placed = ho::choice::save;
};

static std::array<drawn, 4> draw(std::mt19937_64& random, bool save_all) {
  std::array<drawn, 4> all;
  for (drawn& d : all) {
    d.elements = 1 + random() % 1500;
    const bool mostly = random() % 4 != 0;
    const auto any = static_cast<ho::choice>(random() % 3);
    d.placed = mostly ? ho::choice::offload : any;
    if (save_all) d.placed = ho::choice::save;
  }
  return all;
}

/// A layer's tensors: a from the layer before; b and c from a, by one function; d from b and c. The sizes differ.
struct layer {
  layer(ho::prefetch_scheduler& scheduler, const std::array<drawn, 4>& four, ho::layer_position at,
        bool coroutines_only, layer* before)
      : a(scheduler, four[0].elements, at, four[0].placed),
        b(scheduler, four[1].elements, at, four[1].placed),
        c(scheduler, four[2].elements, at, four[2].placed),
        d(scheduler, four[3].elements, at, four[3].placed) {
    const cudaStream_t stream = scheduler.compute();
    const auto plus = static_cast<float>(at.index);
    a.define([this, stream, plus, before](std::span<float> out) -> ho::task<> {
      if (before == nullptr) {
        combine(stream, nullptr, 0, out.data(), out.size(), plus + batch);
        co_return;
      }
      auto in = co_await before->d;
      combine(stream, in.data(), in.size(), out.data(), out.size(), plus);
    });
    const auto make = [this, stream, plus](std::span<float> to_b, std::span<float> to_c) -> ho::task<> {
      auto in = co_await a;
      combine(stream, in.data(), in.size(), to_b.data(), to_b.size(), plus + 0.25F);
      combine(stream, in.data(), in.size(), to_c.data(), to_c.size(), plus + 0.5F);
    };
    ho::define_group(make, b, c);
    if (coroutines_only) {
      d.define([this, stream, plus](std::span<float> out) -> ho::task<> {
        auto in_b = co_await b;
        auto in_c = co_await c;
        finish(stream, in_b, in_c, out, plus);
      });
    } else {
      d.define([this, stream, plus](std::span<float> out) {
        auto in_b = b.fetch(stream);
        auto in_c = c.fetch(stream);
        finish(stream, in_b, in_c, out, plus);
      });
    }
  }

  static void finish(cudaStream_t stream, const ho::lease<const float>& b, const ho::lease<const float>& c,
                     std::span<float> out, float plus) {
    combine(stream, b.data(), b.size(), out.data(), out.size(), plus + 0.75F);
    float* const to = out.data();
    const float* const from = c.data();
    const std::size_t n = std::min(out.size(), c.size());
    ho::launch(stream, n, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { to[i] += from[i]; },
               {.name = "accumulate",
                .reads = {{to, n * sizeof *to}, {from, n * sizeof *from}},
                .writes = {{to, n * sizeof *to}}});
  }

  float batch = 0;
  tensor<name::a> a;
  tensor<name::b> b;
  tensor<name::c> c;
  tensor<name::d> d;
};

/// Layers that depend on one another, and what kernels read of them.
struct chain {
  std::vector<std::unique_ptr<layer>> layers;
  std::vector<std::pair<kernel_memory, std::size_t>> seen;
  float batch = 0;

  /// A kernel copies what it reads, when the device comes to it.
  void look(cudaStream_t stream, const ho::lease<const float>& in) {
    seen.emplace_back(memory_for_kernels(in.size()), in.size());
    copy_out(stream, in.data(), seen.back().first, in.size(), 1e6);
  }
};

/// A scheduler with its streams and layers.
struct trainer {
  trainer(std::size_t window, const shape& s)
      : scheduler({.compute = compute.get(),
                   .window = window,
                   .sample_every = s.sample_every,
                   .plan = s.planned,
                   .observer = watched}) {}
  ho::stream second;
  ho::stream compute;
  ho::prefetch_scheduler scheduler;
  std::vector<chain> chains;
};

struct program::state {
  shape s;
  std::vector<std::unique_ptr<trainer>> trainers{};
  std::size_t uses = 0;
  std::size_t left_out = 0;

  /// Some reads are on the second stream, by the layer's index.
  [[nodiscard]] cudaStream_t reader(const trainer& t, std::size_t index) const {
    return s.second_stream && index % 3 == 1 ? t.second.get() : t.scheduler.compute();
  }

  template <class Tensor>
  static ho::task<> use(chain& c, Tensor& t, cudaStream_t on) {
    auto in = co_await t.on(on);
    c.look(on, in);
  }
  template <class Tensor>
  ho::task<> use_last(chain& c, Tensor& t, cudaStream_t on) {
    if (++uses == left_out) co_return;
    auto in = co_await std::move(t).on(on);
    c.look(on, in);
  }

  ho::task<> pass(trainer& t, chain& c) {
    for (std::size_t micro = 0; micro < s.micro_batches; ++micro) {
      begin_batch(c);
      for (std::size_t i = 0; i < c.layers.size(); ++i) co_await use(c, c.layers[i]->d, reader(t, i));
      for (std::size_t i = c.layers.size(); i-- > last_layer(c);) {
        layer& l = *c.layers[i];
        co_await use_last(c, l.d, reader(t, i));
        co_await use_last(c, l.c, t.scheduler.compute());
        co_await use_last(c, l.b, reader(t, i + 1));
        co_await use_last(c, l.a, reader(t, i));
      }
    }
  }

  void pass_now(trainer& t, chain& c) {
    const auto use_now = [&](auto& tensor, cudaStream_t on) {
      if (++uses == left_out) return;
      auto in = std::move(tensor).fetch(on);
      c.look(on, in);
    };
    for (std::size_t micro = 0; micro < s.micro_batches; ++micro) {
      begin_batch(c);
      for (std::size_t i = 0; i < c.layers.size(); ++i) {
        auto in = c.layers[i]->d.fetch(reader(t, i));
        c.look(reader(t, i), in);
      }
      for (std::size_t i = c.layers.size(); i-- > last_layer(c);) {
        layer& l = *c.layers[i];
        use_now(l.d, reader(t, i));
        use_now(l.c, t.scheduler.compute());
        use_now(l.b, reader(t, i + 1));
        use_now(l.a, reader(t, i));
      }
    }
  }

  /// With which the backward pass ends.
  [[nodiscard]] std::size_t last_layer(const chain& c) const { return s.stops_early ? c.layers.size() / 2 : 0; }

  static void begin_batch(chain& c) {
    for (auto& l : c.layers) l->batch = c.batch;
    c.batch += 1;
  }

  ho::task<> all_chains(trainer& t) {
    std::vector<ho::task<>> tasks;
    for (chain& c : t.chains) tasks.push_back(pass(t, c));
    co_await ho::when_all(std::move(tasks));
  }
};

program::program(const shape& s, bool save_all) : state_(std::make_unique<state>(state{s})) {
  state& my = *state_;
  const std::size_t least = s.window == 0 || save_all ? 0 : least_window_of(s);
  const std::size_t window =
      least == 0 ? ho::unlimited : static_cast<std::size_t>(static_cast<double>(least) * s.window);
  for (std::size_t i = 0; i < s.schedulers; ++i) {
    my.trainers.push_back(std::make_unique<trainer>(window, s));
    trainer& t = *my.trainers.back();
    std::mt19937_64 random(s.seed + i);
    t.chains.resize(s.side_by_side ? 2 : 1);
    for (chain& c : t.chains) {
      for (std::size_t l = 0; l < s.layers; ++l) {
        c.layers.push_back(std::make_unique<layer>(t.scheduler, draw(random, save_all), ho::layer_position{l, s.layers},
                                                   s.side_by_side, l == 0 ? nullptr : c.layers.back().get()));
      }
    }
  }
}

program::~program() = default;

void program::step(float batch, std::size_t use_left_out) {
  state& my = *state_;
  my.uses = 0;
  my.left_out = use_left_out;
  for (auto& t : my.trainers) {
    for (chain& c : t->chains) c.batch = batch;
    if (my.s.straight_line) {
      ho::step step(t->scheduler);
      for (chain& c : t->chains) my.pass_now(*t, c);
      step.end();
    } else {
      t->scheduler.run([&] { return my.all_chains(*t); });
    }
  }
}

std::vector<float> program::values() {
  ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::vector<float> all;
  for (auto& t : state_->trainers) {
    for (chain& c : t->chains) {
      for (const auto& [values, n] : c.seen) all.insert(all.end(), values.get(), values.get() + n);
      c.seen.clear();
    }
  }
  return all;
}

std::size_t program::least_window() const {
  std::size_t least = 0;
  for (auto& t : state_->trainers) least = std::max(least, t->scheduler.report().least_window_bytes);
  return least;
}

std::size_t program::steps_repeated() const {
  std::size_t repeated = 0;
  for (auto& t : state_->trainers) repeated += t->scheduler.report().repeated ? 1U : 0U;
  return repeated;
}

std::size_t program::plans_followed() const {
  std::size_t followed = 0;
  for (auto& t : state_->trainers) followed += t->scheduler.report().planned ? 1U : 0U;
  return followed;
}

std::size_t least_window_of(const shape& s) {
  const auto found = least_windows().find(s.seed);
  if (found == least_windows().end()) throw std::logic_error("prepare(shape) has not been called");
  return found->second;
}

void prepare(const shape& s) {
  if (least_windows().contains(s.seed)) return;
  vg::reset(vg::gb200());
  shape without_bound = s;
  without_bound.window = 0;
  without_bound.planned = false;
  program measured(without_bound, false);
  measured.step(0);
  static_cast<void>(measured.values());
  least_windows()[s.seed] = measured.least_window();
}

}  // namespace proof
