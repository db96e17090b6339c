// Steps that follow a plan: the same bits, the predicted time, the predicted memory; and what happens when a step
// departs from its plan.

#include "gpu.hpp"

#include <hostoffload/schedule/plan_step.hpp>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

using namespace ho::literals;

namespace {

enum class name { x, y };
template <name Name>
using tensor = ho::offload_tensor<float, ho::any_placement<Name>>;

constexpr std::size_t big = 5'000'000;  // 20 MB: a tenth of a millisecond each way on GB200
constexpr std::size_t slot = ho::detail::slot_size(big * sizeof(float));

/// Layers of two tensors; forward and backward take `layer_s` and twice as much of a layer.
struct trainer {
  trainer(std::size_t layers, std::size_t window, double layer_s, bool plan = true, unsigned sample_every = 1)
      : seconds(layer_s),
        scheduler({.compute = compute.get(),
                   .window = window,
                   .sample_every = sample_every,
                   .plan = plan,
                   .observer = watched}) {
    for (std::size_t i = 0; i < layers; ++i) {
      x.push_back(
          std::make_unique<tensor<name::x>>(scheduler, big, ho::layer_position{i, layers}, ho::choice::offload));
      y.push_back(
          std::make_unique<tensor<name::y>>(scheduler, big / 2, ho::layer_position{i, layers}, ho::choice::offload));
    }
  }

  template <class Tensor>
  void make(Tensor& t, float value) {
    auto out = t.produce(compute.get());
    float* const to = out.data();
    ho::launch(compute.get(), 16, [to, value](std::size_t i) { to[i] = value + static_cast<float>(i); },
               {.name = "make", .writes = {{to, out.span().size_bytes()}}});
  }
  template <class Tensor>
  void use(Tensor& t) {
    auto in = std::move(t).fetch(compute.get());
    all.push_back(std::make_unique<seen>(compute.get(), in.data(), 16));
    busy(compute.get(), seconds);
  }

  void forward(float first) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      make(*x[i], first + static_cast<float>(i));
      busy(compute.get(), seconds / 2);
      make(*y[i], first - static_cast<float>(i));
      busy(compute.get(), seconds / 2);
    }
  }
  void backward() {
    for (std::size_t i = x.size(); i-- > 0;) {
      use(*y[i]);
      use(*x[i]);
    }
  }
  ho::step_report step(float first) {
    all.clear();
    {
      ho::step s(scheduler);
      forward(first);
      backward();
      s.end();
    }
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto layer = static_cast<float>(x.size() - 1 - i);
      CHECK(all[2 * i]->is(first - layer));
      CHECK(all[2 * i + 1]->is(first + layer));
    }
    return scheduler.report();
  }

  double seconds;
  ho::stream compute;
  ho::prefetch_scheduler scheduler;
  std::vector<std::unique_ptr<tensor<name::x>>> x;
  std::vector<std::unique_ptr<tensor<name::y>>> y;
  std::vector<std::unique_ptr<seen>> all;
};

}  // namespace

TEST_CASE("steps follow the plan of a timed one: in the predicted time and memory, with the values of any step") {
  gpu device;
  trainer t(8, 6 * slot, 4e-4);
  ho::step_report r;
  for (int step = 1; step <= 8; ++step) {
    r = t.step(static_cast<float>(step));
    CHECK(r.planned == (step >= 5));
    CHECK(r.plan_departures == 0);
  }
  CHECK(r.plan_note.empty());
  CHECK(r.plan_window_bytes <= 5 * slot);
  CHECK(r.window_top_bytes == r.plan_window_bytes);
  CHECK(r.plan_alive_bytes <= r.plan_window_bytes);
  REQUIRE(r.sampled);
  CHECK(r.step_s == Approx(r.plan_step_s).epsilon(0.01));
  CHECK(r.exposed_s < 0.01 * r.step_s);
  CHECK(r.plan_exposed_s < 0.01 * r.step_s);
  CHECK(r.late_fetches == 0);
  CHECK(r.copies_in == r.copies_out);
}

TEST_CASE("a plan with room to spare keeps tensors on the device: fewer copies than without a plan") {
  gpu device;
  const auto last = [](bool plan) {
    trainer t(6, 8 * slot, 2e-5, plan);  // the link is far slower than the kernels
    ho::step_report r;
    for (int step = 1; step <= 8; ++step) r = t.step(1);
    return r;
  };
  const ho::step_report without = last(false);
  const ho::step_report with = last(true);
  CHECK(with.planned);
  CHECK(with.copies_out < without.copies_out);
  CHECK(with.step_s < without.step_s);
}

TEST_CASE("a step that departs from its plan has the right values, is counted, and the plan holds for the next") {
  gpu device;
  trainer t(6, 6 * slot, 2e-4);
  for (int step = 1; step <= 6; ++step) t.step(1);
  REQUIRE(t.scheduler.report().planned);
  {
    ho::step s(t.scheduler);  // the forward pass of an evaluation
    t.forward(2);
    s.end();
  }
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(t.scheduler.report().plan_departures == 1);
  CHECK(t.step(3).planned);
  t.all.clear();
  {
    ho::step s(t.scheduler);  // x before y
    t.forward(4);
    for (std::size_t i = t.x.size(); i-- > 0;) {
      t.use(*t.x[i]);
      t.use(*t.y[i]);
    }
    s.end();
  }
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  for (std::size_t i = 0; i < t.x.size(); ++i) {
    const auto layer = static_cast<float>(t.x.size() - 1 - i);
    CHECK(t.all[2 * i]->is(4 + layer));
    CHECK(t.all[2 * i + 1]->is(4 - layer));
  }
  CHECK(t.scheduler.report().plan_departures == 1);
  CHECK_FALSE(t.scheduler.report().planned);
  CHECK(t.step(5).planned);
}

TEST_CASE("a step that has changed for good is planned anew") {
  gpu device;
  trainer t(6, 6 * slot, 2e-4, true, 1000);
  for (int step = 1; step <= 6; ++step) t.step(1);
  REQUIRE(t.scheduler.report().planned);
  const auto other = [&] {
    t.all.clear();
    {
      ho::step s(t.scheduler);
      t.forward(1);
      for (std::size_t i = t.x.size(); i-- > 0;) {
        t.use(*t.x[i]);
        t.use(*t.y[i]);
      }
      s.end();
    }
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    return t.scheduler.report();
  };
  CHECK(other().plan_departures == 1);
  CHECK(other().plan_departures == 1);
  CHECK(other().plan_note == "the step has changed: its times are taken again");
  other();
  CHECK(other().planned);
}

TEST_CASE("times that drift by more than a tenth lead to a new plan, smaller changes do not") {
  gpu device;
  trainer t(6, 6 * slot, 2e-4);
  for (int step = 1; step <= 6; ++step) t.step(1);
  const double before = t.scheduler.report().plan_step_s;
  t.seconds = 2.1e-4;
  for (int step = 1; step <= 4; ++step) t.step(1);
  CHECK(t.scheduler.report().plan_step_s == before);
  t.seconds = 3e-4;
  for (int step = 1; step <= 4; ++step) t.step(1);
  CHECK(t.scheduler.report().plan_step_s == Approx(1.5 * before).epsilon(0.02));
}

TEST_CASE("without room for the plan beside the reserve, or without a bound, steps go on without a plan and say why") {
  gpu device;
  trainer t(4, slot, 2e-4);
  ho::step_report r;
  for (int step = 1; step <= 7; ++step) r = t.step(1);
  CHECK_FALSE(r.planned);
  CHECK(r.plan_note == "no plan fits into the window beside its reserve");
  trainer unbounded(4, ho::unlimited, 2e-4);
  for (int step = 1; step <= 7; ++step) r = unbounded.step(1);
  CHECK(r.plan_note == "only a bounded window is planned");
  REQUIRE(unbounded.scheduler.record());
  CHECK(unbounded.scheduler.record()->lives.size() == 8);
}

TEST_CASE("the record has the order, the bytes, the times of the kernels and the rates of the link") {
  gpu device;
  trainer t(4, 4 * slot, 4e-4);
  CHECK_FALSE(t.scheduler.record());
  for (int step = 1; step <= 6; ++step) t.step(1);
  REQUIRE(t.scheduler.record());
  const ho::recorded_step r = *t.scheduler.record();
  REQUIRE(r.lives.size() == 8);
  CHECK((r.lives[0].name == "x" && r.lives[1].name == "y" && r.lives[2].layer == 1));
  CHECK(r.lives[1].bytes == big / 2 * sizeof(float));
  CHECK(r.lives[0].uses == std::vector<ho::recorded_use>{{1, 2}, {31, 32}});
  REQUIRE(r.segment_s.size() == 33);
  CHECK(r.segment_s[31] == Approx(4e-4).epsilon(0.01));
  CHECK(r.segment_s[2] == Approx(2e-4).epsilon(0.1));  // with launches between two kernels
  const vg::machine m = vg::current_machine();
  CHECK(r.out.rate == Approx(m.link.to_host.value).epsilon(0.08));
  CHECK(r.in.rate == Approx(m.link.to_device.value).epsilon(0.08));
}

namespace {

/// The last of 28 steps of kernels so short that a copy in that starts on an idle link is late; and seconds of the last
/// ten, one after the other.
struct short_steps {
  short_steps(std::size_t window, double layer_s, bool plan) {
    vg::reset(vg::gb200());
    trainer t(4, window, layer_s, plan, 1000);
    for (int step = 1; step <= 28; ++step) {
      if (step == 19) ten_s = -vg::now();
      last = t.step(1);
    }
    ten_s += vg::now();
  }
  double ten_s = 0;
  ho::step_report last{};
};

}  // namespace

TEST_CASE("no plan is kept with which steps are slower than without one") {
  gpu device;
  int given_up = 0;
  for (const std::size_t slots : {3U, 4U, 6U}) {
    for (const double layer_s : {3e-5, 1e-4, 2e-4}) {
      INFO("window of " << slots << " slots, " << layer_s << " s a layer");
      const short_steps without(slots * slot, layer_s, false);
      const short_steps with(slots * slot, layer_s, true);
      CHECK(with.ten_s <= 1.01 * without.ten_s);
      if (with.last.planned) continue;
      ++given_up;
      CHECK(with.last.plan_note == "steps that followed it took longer than steps without one");
      CHECK(with.last.with_plan_s > 1.01 * with.last.without_plan_s);
    }
  }
  CHECK(given_up > 0);
}

TEST_CASE("steps are as before the plan that was given up, and a step that changes is planned anew") {
  gpu device;
  trainer t(6, 6 * slot, 2e-4, true, 7);
  for (int step = 1; step <= 40; ++step) {
    t.seconds = t.scheduler.report().planned || step == 5 ? 2.1e-4 : 2e-4;  // as if the plan were slower
    t.step(1);
  }
  const ho::step_report r = t.scheduler.report();
  CHECK(r.plan_note == "steps that followed it took longer than steps without one");
  CHECK(r.with_plan_s == Approx(r.without_plan_s * 2.1 / 2).epsilon(0.01));
  std::ostringstream text;
  text << r;
  CHECK_THAT(text.str(), has_text("no plan: steps that followed it took longer than steps without one\n"
                                  "steps with a plan took 3.9"));
  for (int step = 1; step <= 20; ++step) CHECK_FALSE(t.step(2).planned);
  t.x.pop_back();
  t.y.pop_back();
  for (int step = 1; step <= 5; ++step) t.step(3);
  CHECK(t.scheduler.report().planned);
}

TEST_CASE("a plan that only seems slower, since all steps are slower than the first ones, is taken up again") {
  gpu device;
  trainer t(6, 6 * slot, 2e-4, true, 1000);
  std::vector<bool> planned;
  for (int step = 1; step <= 40; ++step) {
    t.seconds = step < 5 ? 2e-4 : 2.1e-4;
    planned.push_back(t.step(1).planned);
  }
  const auto changes = [&] {
    int n = 0;
    for (std::size_t i = 1; i < planned.size(); ++i) n += planned[i] != planned[i - 1] ? 1 : 0;
    return n;
  };
  CHECK(planned.back());
  CHECK(changes() == 3);  // planned, set aside, taken up
  const ho::step_report r = t.scheduler.report();
  CHECK(r.plan_note.empty());
  CHECK(r.with_plan_s <= 1.01 * r.without_plan_s);
}

TEST_CASE("the report says why there is no plan: before a step was timed, and when steps are repeated") {
  gpu device;
  trainer t(4, slot, 2e-4, true, 1000);
  CHECK(t.step(1).plan_note == "no step has been timed yet");
  ho::step_report r;
  for (int step = 2; step <= 12; ++step) r = t.step(1);
  CHECK(r.repeated);
  CHECK(r.plan_note == "no plan fits into the window beside its reserve");
}

TEST_CASE("tensors that are built or destroyed void the plan, and a new one follows") {
  gpu device;
  trainer t(4, 6 * slot, 2e-4);
  for (int step = 1; step <= 6; ++step) t.step(1);
  REQUIRE(t.scheduler.report().planned);
  t.x.pop_back();
  t.y.pop_back();
  CHECK_FALSE(t.step(1).planned);
  CHECK(t.scheduler.report().plan_note == "tensors were built or destroyed: times are taken again");
  for (int step = 1; step <= 4; ++step) t.step(2);
  CHECK(t.scheduler.report().planned);
}

TEST_CASE("a planned step is captured and launched, and planned steps go on") {
  gpu device;
  trainer t(6, 6 * slot, 2e-4);
  for (int step = 1; step <= 6; ++step) t.step(1);
  REQUIRE(t.scheduler.report().planned);
  t.all.clear();
  ho::step_graph graph = t.scheduler.capture([&] {
    t.forward(3);
    t.backward();
  });
  for (int launch = 1; launch <= 3; ++launch) {
    graph.launch();
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(t.scheduler.report().planned);
    CHECK(t.scheduler.report().replays == static_cast<std::size_t>(launch));
    for (std::size_t i = 0; i < t.x.size(); ++i) {
      const auto layer = static_cast<float>(t.x.size() - 1 - i);
      CHECK(t.all[2 * i]->is(3 - layer));
      CHECK(t.all[2 * i + 1]->is(3 + layer));
    }
  }
  CHECK(t.step(4).planned);
}
