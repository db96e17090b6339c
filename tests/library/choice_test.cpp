// Tensors that may be copied or made again: the plan chooses, the step is no slower than with either for all, and the
// bits are the same.

#include "gpu.hpp"

#include <hostoffload/virtual_gpu/faults.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace ho::literals;

namespace {

enum class name { input, a, b, q, k };
template <name Name>
using tensor = ho::offload_tensor<float, ho::any_placement<Name>>;

constexpr std::size_t n = 1'000'000;  // 4 MB
constexpr std::size_t slot = ho::detail::slot_size(n * sizeof(float));
constexpr std::size_t least = 4 * slot;  // q and k are made of b, and that of a, all in one await
constexpr std::size_t per_layer = 4;     // tensors

/// Seconds that each kernel takes, and the size of k.
struct costs {
  double a = 1e-5, b = 1e-5, pair = 1e-5;
  double layer = 1e-4;  // of the trainer's own, forward; twice that backward
  std::size_t k = n;
};

/// A layer makes a of the input, b of a, and q and k together of b.
struct layer {
  layer(ho::prefetch_scheduler& scheduler, ho::choice placed, ho::layer_position at, const costs& takes)
      : stream(scheduler.compute()),
        input(scheduler, n, at, ho::choice::save),
        a(scheduler, n, at, placed),
        b(scheduler, n, at, placed),
        q(scheduler, n, at, placed),
        k(scheduler, takes.k, at, placed) {
    a.define([this, takes](std::span<float> out) {
      const auto x = input.fetch(stream);
      make(out, x.data(), 1, takes.a);
    });
    b.define([this, takes](std::span<float> out) -> ho::task<> {
      const auto x = co_await a;
      make(out, x.data(), 2, takes.b);
    });
    const auto both = [this, takes](std::span<float> one, std::span<float> two) -> ho::task<> {
      const auto x = co_await b;
      make(one, x.data(), 3, takes.pair / 2);
      make(two, x.data(), 4, takes.pair / 2);
    };
    ho::define_group(both, q, k);
  }
  void make(std::span<float> out, const float* from, float plus, double seconds) const {
    float* const to = out.data();
    ho::launch(stream, 16, [=](std::size_t i) { to[i] = from[i] + plus; },
               {.name = "make", .reads = {{from, out.size_bytes()}}, .writes = {{to, out.size_bytes()}}});
    busy(stream, seconds);
  }

  cudaStream_t stream;
  tensor<name::input> input;
  tensor<name::a> a;
  tensor<name::b> b;
  tensor<name::q> q;
  tensor<name::k> k;
};

struct trainer {
  trainer(std::size_t count, ho::choice placed, std::size_t window, const costs& takes, bool plan = true,
          unsigned sample_every = 1)
      : time(takes),
        scheduler({.compute = compute.get(),
                   .window = window,
                   .sample_every = sample_every,
                   .plan = plan,
                   .observer = watched}) {
    for (std::size_t i = 0; i < count; ++i)
      layers.push_back(std::make_unique<layer>(scheduler, placed, ho::layer_position{i, count}, takes));
  }

  ho::task<> forward(float first) {
    for (auto& l : layers) {
      {
        auto x = l->input.produce(compute.get());
        float* const to = x.data();
        ho::launch(compute.get(), 16, [to, first](std::size_t i) { to[i] = first + static_cast<float>(i); },
                   {.name = "input", .writes = {{to, x.span().size_bytes()}}});
      }
      auto q = co_await l->q;
      auto k = co_await l->k;
      busy(compute.get(), time.layer);
    }
  }
  ho::task<> train(float first) {
    for (std::size_t batch = 0; batch < micro_batches; ++batch) {
      co_await forward(first);
      co_await backward();
    }
  }
  ho::task<> backward() {
    for (std::size_t i = layers.size(); i-- > 0;) {
      layer& l = *layers[i];
      if (inputs_first) {
        co_await use(l.a);
        co_await use(l.b);
      }
      co_await use(l.k);
      co_await use(l.q);
      if (!inputs_first) {
        co_await use(l.b);
        co_await use(l.a);
      }
      auto x = co_await std::move(l.input);
    }
  }
  template <class Tensor>
  ho::task<> use(Tensor& t) {
    auto in = co_await std::move(t);
    all.push_back(std::make_unique<seen>(compute.get(), in.data(), 16));
    busy(compute.get(), time.layer / 2);
  }

  void check(float first) const {
    const std::vector<float> added = inputs_first ? std::vector<float>{1, 3, 7, 6} : std::vector<float>{7, 6, 3, 1};
    REQUIRE(all.size() == per_layer * layers.size() * micro_batches);
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i]->is(first + added[i % per_layer]));
  }
  ho::step_report step(float first) {
    all.clear();
    scheduler.run([&] { return train(first); });
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    check(first);
    return scheduler.report();
  }
  /// The last of so many steps.
  ho::step_report steps(int count) {
    ho::step_report r;
    for (int i = 1; i <= count; ++i) {
      r = step(static_cast<float>(i));
      CHECK(r.window_peak_bytes <= r.window_bytes);
    }
    return r;
  }

  costs time;
  bool inputs_first = false;  // backward
  std::size_t micro_batches = 1;
  ho::stream compute;
  ho::prefetch_scheduler scheduler;
  std::vector<std::unique_ptr<layer>> layers;
  std::vector<std::unique_ptr<seen>> all;
};

std::string text_of(const ho::step_report& r) {
  std::ostringstream text;
  text << r;
  return text.str();
}
/// Tensors that are made again as chosen.
std::size_t made_again(const ho::step_report& r) {
  std::size_t all = 0;
  for (const ho::tensor_report& t : r.tensors) all += t.made_again;
  return all;
}

}  // namespace

TEST_CASE(
    "generated steps: with the choice no slower than all copied or all made again, and sometimes faster than both") {
  std::size_t mixes = 0;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 10U, 11U, 12U}) {
    std::mt19937_64 draw(seed);
    const auto between = [&](double low, double high) {
      return low * std::pow(high / low, static_cast<double>(draw() % 1000) / 1000);
    };
    const double copy_s = 4 * static_cast<double>(slot) / vg::h200().link.to_host.value;  // of a layer, each way
    const double ratio = between(0.3, 3);
    costs takes{.layer = 2 * copy_s / ratio / 3};
    takes.a = between(0.03, 1) * takes.layer;
    takes.b = between(0.03, 1) * takes.layer;
    takes.pair = between(0.03, 1) * takes.layer;
    const auto window = static_cast<std::size_t>(between(2.05, 4) * static_cast<double>(least));
    const std::size_t layers = 4 + draw() % 4;
    takes.k = n / (1 + draw() % 4);
    const std::size_t micro_batches = 1 + draw() % 2;
    INFO("seed " << seed << ": " << layers << " layers, " << micro_batches << " micro batches, k of " << takes.k
                 << ", copies " << ratio << " times the kernels, a " << takes.a << " s, b " << takes.b << " s, q and k "
                 << takes.pair << " s, window " << window);
    const auto stepped = [&](ho::choice placed) {
      gpu device(vg::h200());
      trainer t(layers, placed, window, takes);
      t.micro_batches = micro_batches;
      return t.steps(10);
    };
    const double both = std::min(stepped(ho::choice::offload).step_s, stepped(ho::choice::remat).step_s);
    const ho::step_report r = stepped(ho::choice::offload_or_remat);
    CHECK(r.planned);
    CHECK(r.step_s <= 1.01 * both);
    CHECK(r.step_s == Approx(r.plan_step_s).epsilon(0.03));
    mixes += r.step_s < 0.98 * both ? 1 : 0;
  }
  CHECK(mixes >= 3);
}

TEST_CASE("behind a slow link cheap tensors are made again, and the report says which, why and what it gains") {
  gpu device(vg::h200());
  const costs takes{.a = 1e-5, .b = 1e-5, .pair = 2e-5, .layer = 1e-4};
  trainer t(8, ho::choice::offload_or_remat, 3 * least, takes);
  const ho::step_report r = t.steps(10);
  CHECK(r.planned);
  CHECK(r.plan_choice == "the copies of all cannot be hidden");
  CHECK(made_again(r) > 0);
  CHECK(r.plan_step_s < 0.99 * r.plan_offload_s);
  CHECK(r.plan_step_s <= r.plan_remat_s);
  std::size_t recomputed = 0;
  for (const ho::tensor_report& of : r.tensors) {
    INFO(of.name);
    CHECK(of.rematerialised == of.made_again);
    CHECK(of.bytes_out <= of.offloaded * slot);
    CHECK(of.offloaded + of.rematerialised + of.saved == 8);
    CHECK(of.fell_back == 0);
    recomputed += of.recomputed;
  }
  CHECK(recomputed > 0);
  CHECK(t.layers[0]->a.placed() == ho::choice::offload);
  CHECK(r.host_bytes == 8 * per_layer * slot);  // of those made again too
  CHECK(r.host_peak_bytes <= r.bytes_out);
  std::ostringstream numbers;
  numbers.precision(4);
  numbers << "; the copies of all cannot be hidden; predicted step time with all copied " << r.plan_offload_s * 1e3
          << " ms, with all made again " << r.plan_remat_s * 1e3 << " ms\n";
  std::ostringstream which;
  for (const ho::tensor_report& of : r.tensors) {
    if (of.made_again != 0) which << (which.str().empty() ? "" : ", ") << of.name << ' ' << of.made_again << " of 8";
  }
  CHECK_THAT(text_of(r), has_text("made again instead of copied: " + which.str() + numbers.str()));
  std::ostringstream json;
  ho::to_json(json, r);
  CHECK_THAT(json.str(), has_text("\"plan_choice\": \"the copies of all cannot be hidden\""));
  CHECK_THAT(json.str(), has_text("\"made_again\": "));
}

TEST_CASE("nothing is chosen where copies are hidden, recomputation is dear, without a plan, or for other placements") {
  gpu device(vg::h200());
  const auto last = [](const costs& takes, ho::choice placed, bool plan) {
    trainer t(5, placed, 3 * least, takes, plan);
    return t.steps(9);
  };
  const costs hidden{.layer = 1e-3};
  CHECK(last(hidden, ho::choice::offload_or_remat, true).plan_choice == "all copies are hidden");
  const costs dear{.a = 1e-3, .b = 1e-3, .pair = 1e-3, .layer = 1e-6};
  const ho::step_report r = last(dear, ho::choice::offload_or_remat, true);
  CHECK(made_again(r) == 0);
  const costs cheap{.layer = 5e-5};
  CHECK(made_again(last(cheap, ho::choice::offload_or_remat, true)) > 0);
  for (const bool plan : {false, true}) {
    for (const ho::choice placed : {ho::choice::offload, ho::choice::offload_or_save, ho::choice::offload_or_remat}) {
      if (plan && placed == ho::choice::offload_or_remat) continue;
      const ho::step_report other = last(cheap, placed, plan);
      CHECK(made_again(other) == 0);
      CHECK(other.plan_choice.empty());
      CHECK(other.copies_in > 0);
    }
  }
}

TEST_CASE("what lacks an input when it would be made again is copied") {
  gpu device(vg::h200());
  trainer t(6, ho::choice::offload_or_remat, 3 * least, {.layer = 5e-5});
  t.inputs_first = true;  // a and b are over when q and k are used
  const ho::step_report r = t.steps(10);
  CHECK(r.planned);
  CHECK(made_again(r) > 0);
  for (const ho::tensor_report& of : r.tensors) CHECK((of.name == "a" || of.made_again == 0));
}

TEST_CASE("a choice is kept: the same tensors, the same plan, and a captured step that stays good") {
  gpu device(vg::h200());
  trainer t(6, ho::choice::offload_or_remat, 3 * least, {.layer = 5e-5});
  const ho::step_report first = t.steps(10);
  REQUIRE(made_again(first) > 0);
  t.all.clear();
  ho::step_graph graph = t.scheduler.capture([&] { return t.train(3); });
  std::vector<std::unique_ptr<seen>> by_graph = std::move(t.all);
  for (int step = 11; step <= 40; ++step) {
    const ho::step_report r = t.step(static_cast<float>(step));
    CHECK(r.planned);
    CHECK(r.plan_step_s == first.plan_step_s);
    for (std::size_t i = 0; i < r.tensors.size(); ++i) CHECK(r.tensors[i].made_again == first.tensors[i].made_again);
    std::swap(t.all, by_graph);
    graph.launch();
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    t.check(3);
    CHECK(made_again(t.scheduler.report()) == made_again(first));
    std::swap(t.all, by_graph);
  }
}

TEST_CASE("a choice makes a captured step stale") {
  gpu device(vg::h200());
  trainer t(6, ho::choice::offload_or_remat, 3 * least, {.layer = 5e-5});
  REQUIRE(made_again(t.steps(2)) == 0);
  ho::step_graph graph = t.scheduler.capture([&] { return t.train(3); });
  CHECK(made_again(t.steps(8)) > 0);
  CHECK_THROWS_AS(graph.launch(), ho::stale_graph_error);
}

TEST_CASE("when times change for good all is copied until they are known, and chosen anew") {
  gpu device(vg::h200());
  trainer t(6, ho::choice::offload_or_remat, 3 * least, {.layer = 5e-5});
  REQUIRE(made_again(t.steps(10)) > 0);
  t.time.layer = 1e-3;  // the kernels hide all copies
  const ho::step_report hidden = t.steps(10);
  CHECK(hidden.planned);
  CHECK(made_again(hidden) == 0);
  CHECK(hidden.plan_choice == "all copies are hidden");
  t.time.layer = 5e-5;
  CHECK(made_again(t.steps(12)) > 0);
}

TEST_CASE("a choice with which steps are slower than without a plan is given up, and all is as it was before") {
  gpu device(vg::h200());
  int first = 0;  // step with the chosen plan
  ho::step_report r;
  for (const bool slower_with : {false, true}) {
    trainer t(6, ho::choice::offload_or_remat, 3 * least, {.layer = 5e-5}, true, 1000);
    r = {};
    for (int step = 1; step <= 40; ++step) {
      const bool with = (r.planned && made_again(r) > 0) || step == first;
      t.time.layer = with && slower_with ? 2e-4 : 5e-5;
      r = t.step(static_cast<float>(step));
      if (first == 0 && r.planned && made_again(r) > 0) first = step;
    }
    if (!slower_with) REQUIRE(made_again(r) > 0);
  }
  CHECK_FALSE(r.planned);
  CHECK(made_again(r) == 0);
  CHECK(r.repeated);
  CHECK(r.plan_choice == "steps with a plan took longer than steps without one");
  CHECK(r.with_plan_s > r.without_plan_s);
  trainer never(6, ho::choice::offload_or_remat, 3 * least, {.layer = 5e-5}, false);
  CHECK(r.without_plan_s == Approx(never.steps(30).step_s).epsilon(0.001));
}

TEST_CASE("a choice that measures worse than predicted is taken back once, to the plan before, and stays back") {
  gpu device(vg::h200());
  trainer t(6, ho::choice::offload_or_remat, 3 * least, {.layer = 5e-5});
  ho::step_report r = t.steps(10);
  REQUIRE(made_again(r) > 0);
  const double all_copied_s = r.plan_offload_s;
  vg::delay(vg::operation_kind::wait, 2e-4);  // neither kernels nor copies
  r = t.steps(5);
  CHECK(r.plan_choice == "a step took longer than predicted, and longer than copying all");
  vg::clear_faults();
  for (int step = 1; step <= 20; ++step) {
    r = t.step(1);
    CHECK(r.planned);
    CHECK(made_again(r) == 0);
    CHECK(r.plan_step_s == Approx(all_copied_s).epsilon(0.1));
    CHECK_THAT(text_of(r), has_text("no tensor is made again instead of copied; a step took longer than predicted"));
  }
}

TEST_CASE("steps that cannot be planned with the choice take it back") {
  gpu device(vg::h200());
  const costs takes{.layer = 5e-5};
  int chosen_at = 1;
  {
    trainer t(6, ho::choice::offload_or_remat, 3 * least, takes);
    ho::step_report r = t.step(1);
    while (made_again(r) == 0 && chosen_at < 12) r = t.step(static_cast<float>(++chosen_at));
    REQUIRE(made_again(r) > 0);
    CHECK_FALSE(r.planned);
    CHECK(r.plan_note == "some tensors are now made again instead of copied: times are taken again");
  }
  trainer t(6, ho::choice::offload_or_remat, 3 * least, takes);
  t.steps(chosen_at - 1);
  t.inputs_first = true;  // what is made again lacks its inputs, which are made for it alone
  CHECK(made_again(t.step(1)) > 0);
  t.inputs_first = false;
  const ho::step_report r = t.steps(3);
  CHECK(made_again(r) == 0);
  CHECK(r.planned);
  CHECK(r.plan_choice == "they led to steps that cannot be planned");
  CHECK(made_again(t.steps(10)) == 0);
}

TEST_CASE("a step that departs from a plan with a choice has the right values, and tensors that come void the choice") {
  gpu device(vg::h200());
  trainer t(6, ho::choice::offload_or_remat, 3 * least, {.layer = 5e-5});
  REQUIRE(made_again(t.steps(10)) > 0);
  t.scheduler.run([&] { return t.forward(2); });
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK_FALSE(t.scheduler.report().planned);
  t.inputs_first = true;
  CHECK_FALSE(t.step(1).planned);
  t.inputs_first = false;
  CHECK(t.step(2).planned);
  CHECK(made_again(t.step(3)) > 0);
  t.layers.push_back(
      std::make_unique<layer>(t.scheduler, ho::choice::offload_or_remat, ho::layer_position{6, 7}, t.time));
  CHECK(made_again(t.step(4)) == 0);
  CHECK(made_again(t.steps(10)) > 0);
}

namespace {

/// Two layers, in a planned step of which something is made again.
std::unique_ptr<trainer> prepared() {
  vg::reset(vg::h200());
  auto t = std::make_unique<trainer>(2, ho::choice::offload_or_remat, 9 * slot, costs{.layer = 5e-5});
  for (int step = 1; step <= 9; ++step) t->step(static_cast<float>(step));
  REQUIRE(made_again(t->scheduler.report()) > 0);
  REQUIRE(t->scheduler.report().planned);
  return t;
}

}  // namespace

TEST_CASE("each CUDA call of a step with a choice fails once: a typed error, and the next step is right") {
  std::size_t failed = 0;
  for (std::uint64_t n_th = 1;; ++n_th) {
    {
      const auto t = prepared();
      vg::fail_call(n_th, cudaErrorMemoryAllocation);
      t->all.clear();
      bool threw = false;
      try {
        t->scheduler.run([&] { return t->train(1); });
      } catch (const ho::cuda_error& e) {
        threw = true;
        CHECK(e.call() == vg::failed_call()->function);
      }
      if (!vg::failed_call()) break;  // there are fewer
      INFO("call " << n_th << ", " << vg::failed_call()->function);
      CHECK(threw);
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      t->step(2);
      CHECK(made_again(t->step(3)) > 0);
      CHECK(gpu::text_of(vg::findings()).empty());
      t->all.clear();
    }
    CHECK(gpu::text_of(vg::leaks()).empty());
    ++failed;
  }
  CHECK(failed > 50);
}

TEST_CASE("steps with a choice: the bits in every order of execution, no wait too many, and each is needed or paces") {
  const auto two_steps = [](trainer& t) {
    std::vector<std::unique_ptr<seen>> before;
    for (const float first : {1.0F, 2.0F}) {
      before = std::exchange(t.all, {});
      t.scheduler.run([&] { return t.train(first); });
    }
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    bool good = true;
    for (const auto& [all, first] : {std::pair{&before, 1.0F}, std::pair{&t.all, 2.0F}}) {
      for (std::size_t i = 0; i < all->size(); ++i)
        good = good && (*all)[i]->values()[1] == first + 1 + std::vector<float>{7, 6, 3, 1}[i % per_layer];
    }
    return good;
  };
  for (std::uint64_t order = 0; order <= 10; ++order) {
    INFO("order " << order);
    const auto t = prepared();
    vg::execution_order(order);
    CHECK(two_steps(*t));
    CHECK(gpu::text_of(vg::findings()).empty());
  }
  std::size_t found = 0;
  for (std::uint64_t dropped = 1;; ++dropped) {
    const auto t = prepared();
    vg::ignore_wait(dropped);
    const bool good = two_steps(*t);
    vg::wait_record ignored;
    for (const vg::wait_record& w : vg::waits()) {
      const bool gates = (w.stream - 1) % 4 == 3 && (w.event_stream - 1) % 4 == 1;
      if (w.ignored) ignored = w;
      INFO("call " << w.call);
      CHECK((w.ignored || !w.implied || gates));
    }
    if (!ignored.ignored) break;  // there are fewer
    INFO("wait " << dropped);
    if (vg::findings().empty()) {
      const bool gates = (ignored.stream - 1) % 4 == 3 && (ignored.event_stream - 1) % 4 == 1;
      CHECK((ignored.implied_later || gates));
      CHECK(good);
    } else {
      ++found;
    }
  }
  CHECK(found > 5);
}

TEST_CASE("tensors that have come to be used otherwise since the step that was timed are chosen of all the same") {
  const gpu g;
  const ho::stream compute;
  constexpr std::size_t count = 6;
  ho::prefetch_scheduler scheduler(
      {.compute = compute.get(), .window = 4 * slot, .sample_every = 64, .plan = true, .observer = watched});
  std::vector<std::unique_ptr<tensor<name::a>>> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(
        std::make_unique<tensor<name::a>>(scheduler, n, ho::layer_position{i, count}, ho::choice::offload_or_remat));
    all.back()->define([&compute](std::span<float> out) { fill(compute.get(), out.data(), out.size(), 1); });
  }
  std::vector<std::unique_ptr<seen>> looks;
  const auto run = [&](bool once_more) {
    ho::step s(scheduler);
    for (const auto& t : all) {
      t->fetch(compute.get()).end();
      if (once_more) t->fetch(compute.get()).end();
    }
    for (std::size_t i = all.size(); i-- > 0;) {
      auto in = std::move(*all[i]).fetch(compute.get());
      looks.push_back(std::make_unique<seen>(compute.get(), in.data(), 100));
    }
    s.end();
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  };
  for (int step = 1; step <= 12; ++step) run(step % 2 == 0 && step > 3);
  for (int step = 1; step <= 8; ++step) run(false);
  for (const auto& one : looks) CHECK(one->is(1));
}
