// A step captured in a CUDA graph: launches give the values of eager steps, whatever came before and between.

#include "gpu.hpp"

#include <hostoffload/virtual_gpu/faults.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace ho::literals;

namespace {

enum class name { input, gate, up, act };
template <name Name>
using tensor = ho::offload_tensor<float, ho::any_placement<Name>>;

constexpr std::size_t n = 256;
constexpr std::size_t slot = n * sizeof(float);

class owned_stream {
public:
  owned_stream() { REQUIRE(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess); }
  owned_stream(const owned_stream&) = delete;
  owned_stream& operator=(const owned_stream&) = delete;
  ~owned_stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }

private:
  cudaStream_t stream_ = nullptr;
};

class device_floats {
public:
  explicit device_floats(std::size_t count) : memory_(count * sizeof(float)) {}
  [[nodiscard]] float* data() const { return static_cast<float*>(memory_.region().begin); }

private:
  ho::device_allocation memory_;
};

struct layer {
  layer(ho::prefetch_scheduler& scheduler, ho::layer_position at, ho::choice placed, const float* x)
      : input(scheduler, n, at, placed == ho::choice::remat ? ho::choice::save : placed),
        gate(scheduler, n, at, placed),
        up(scheduler, n, at, placed),
        act(scheduler, n, at, placed) {
    const cudaStream_t stream = scheduler.compute();
    const auto first = static_cast<float>(at.index);
    input.define([=](std::span<float> out) { add(stream, x, x, out.data(), out.size(), first); });
    const auto make = [=, this](std::span<float> a, std::span<float> b) -> ho::task<> {
      auto in = co_await input;
      add(stream, in.data(), in.data(), a.data(), a.size(), 3);
      add(stream, in.data(), a.data(), b.data(), b.size(), 4);
    };
    ho::define_group(make, gate, up);
    act.define([=, this](std::span<float> out) -> ho::task<> {
      auto a = co_await gate;
      auto b = co_await up;
      add(stream, a.data(), b.data(), out.data(), out.size());
    });
  }

  tensor<name::input> input;
  tensor<name::gate> gate;
  tensor<name::up> up;
  tensor<name::act> act;
};

/// A trainer whose step reads x, which lies on the device and changes from step to step, and writes out.
struct trainer {
  trainer(const ho::scheduler_options& options, ho::choice placed, cudaStream_t second_stream = nullptr)
      : scheduler(with(options)), second(second_stream) {
    for (std::size_t i = 0; i < count; ++i) {
      layers.push_back(std::make_unique<layer>(scheduler, ho::layer_position{i, count}, placed, x.data()));
    }
  }
  ho::scheduler_options with(ho::scheduler_options options) const {
    options.compute = stream.get();
    options.observer = watched;
    return options;
  }
  ~trainer() { static_cast<void>(cudaStreamSynchronize(stream.get())); }

  ho::task<> step() {
    for (auto& l : layers) {
      auto a = co_await l->act;
      add(stream.get(), a.data(), a.data(), out.data(), n);
    }
    for (std::size_t i = count; i-- > 0;) {
      layer& l = *layers[i];
      {
        auto a = co_await std::move(l.act);
        add(stream.get(), a.data(), out.data(), out.data(), n);
      }
      if (second != nullptr) {
        auto b = co_await l.up.on(second);
        add(second, b.data(), b.data(), aside.data(), n);
      }
      auto a = co_await std::move(l.gate);
      auto b = co_await std::move(l.up);
      auto in = co_await std::move(l.input);
      add(stream.get(), a.data(), b.data(), aside_of_compute.data(), n);
      add(stream.get(), in.data(), out.data(), out.data(), n);
      add(stream.get(), aside_of_compute.data(), out.data(), out.data(), n);
    }
  }
  void straight_step() {
    for (auto& l : layers) {
      auto a = l->act.fetch(stream.get());
      add(stream.get(), a.data(), a.data(), out.data(), n);
    }
    for (std::size_t i = count; i-- > 0;) {
      auto a = std::move(layers[i]->act).fetch(stream.get());
      add(stream.get(), a.data(), out.data(), out.data(), n);
    }
  }

  void eager() {
    scheduler.run([this] { return step(); });
  }
  [[nodiscard]] ho::step_graph capture() {
    return scheduler.capture([this] { return step(); });
  }
  /// What the step makes of an input: to the stream, which it goes through in order.
  void give(float first) { fill(stream.get(), x.data(), n, first); }
  [[nodiscard]] std::vector<float> result() const {
    std::vector<float> values(n);
    REQUIRE(cudaMemcpyAsync(values.data(), out.data(), slot, cudaMemcpyDeviceToHost, stream.get()) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
    return values;
  }

  static constexpr std::size_t count = 4;
  owned_stream stream;
  device_floats x{n};
  device_floats out{n};
  device_floats aside{n};
  device_floats aside_of_compute{n};
  ho::prefetch_scheduler scheduler;
  cudaStream_t second;
  std::vector<std::unique_ptr<layer>> layers;
};

/// Of eager steps that save everything.
std::vector<std::vector<float>> expected(int steps) {
  trainer t({}, ho::choice::save);
  std::vector<std::vector<float>> all;
  for (int i = 0; i < steps; ++i) {
    t.give(static_cast<float>(i));
    t.eager();
    all.push_back(t.result());
  }
  return all;
}

std::string message_of(const std::exception_ptr& e) {
  try {
    std::rethrow_exception(e);
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// The error that `body` throws, which has to be an Error.
template <class Error, class Body>
std::string thrown_by(Body&& body) {
  try {
    body();
  } catch (const Error&) {
    return message_of(std::current_exception());
  }
  FAIL("nothing was thrown");
  return {};
}

}  // namespace

TEST_CASE("fifty launches of a captured step give the values of eager steps, for every placement and window") {
  const auto placed = GENERATE(ho::choice::save, ho::choice::offload, ho::choice::remat);
  const auto window = GENERATE(5 * slot, 8 * slot, ho::unlimited);
  const bool overlap = GENERATE(true, false);
  CAPTURE(static_cast<int>(placed), window, overlap);
  const gpu g;
  constexpr int launches = 50;
  const auto right = expected(launches);
  trainer t({.window = window, .overlap = overlap}, placed);
  for (int i = 0; i < 2; ++i) {
    t.give(static_cast<float>(100 + i));
    t.eager();
  }
  ho::step_graph graph = t.capture();
  for (int i = 0; i < launches; ++i) {
    CAPTURE(i);
    t.give(static_cast<float>(i));
    graph.launch();
    CHECK(t.result() == right[static_cast<std::size_t>(i)]);
  }
  CHECK(graph.launches() == launches);
}

TEST_CASE("a captured step that follows a plan gives the values of eager steps", "[virtual]") {
  const gpu g;
  const auto right = expected(20);
  trainer t({.window = 12 * slot, .plan = true}, ho::choice::offload);
  for (int i = 0; i < 8; ++i) {
    t.give(static_cast<float>(100 + i));
    t.eager();
    static_cast<void>(t.result());
  }
  REQUIRE(t.scheduler.report().planned);
  ho::step_graph graph = t.capture();
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    t.give(static_cast<float>(i));
    if (i % 7 == 6) {
      t.eager();
    } else {
      graph.launch();
    }
    CHECK(t.result() == right[static_cast<std::size_t>(i)]);
  }
  CHECK(t.scheduler.report().planned);
}

TEST_CASE("a new plan makes a graph stale", "[virtual]") {
  const gpu g;
  trainer t({.window = 12 * slot, .plan = true}, ho::choice::offload);
  t.give(0);
  t.eager();
  t.eager();
  ho::step_graph graph = t.capture();
  graph.launch();
  for (int i = 0; i < 6; ++i) {
    t.eager();
    static_cast<void>(t.result());
  }
  REQUIRE(t.scheduler.report().planned);
  CHECK_THAT(thrown_by<ho::stale_graph_error>([&] { graph.launch(); }), Catch::Contains("a new plan was made"));
  ho::step_graph planned = t.capture();
  planned.launch();
  CHECK(t.result() == expected(1)[0]);
}

TEST_CASE("launches run back to back: none waits on the host, and slots are not refilled too soon") {
  const gpu g;
  const auto right = expected(6);
  trainer t({.window = 6 * slot}, ho::choice::offload);
  t.give(9);
  t.eager();
  ho::step_graph graph = t.capture();
  for (int i = 0; i < 6; ++i) {
    t.give(static_cast<float>(i));
    graph.launch();
  }
  CHECK(t.result() == right[5]);
}

TEST_CASE("eager steps and launches follow one another in any order, without synchronisation") {
  const auto second_stream = GENERATE(false, true);
  const auto seed = GENERATE(range<std::uint64_t>(0, 12));
  CAPTURE(second_stream, seed);
  const gpu g;
  const auto right = expected(12);
  vg::execution_order(seed);
  const owned_stream other;
  trainer t({.window = 6 * slot}, ho::choice::offload, second_stream ? other.get() : nullptr);
  const auto eager = [&](int i) {
    t.give(static_cast<float>(i));
    t.eager();
  };
  const auto launch = [&](ho::step_graph& graph, int i) {
    t.give(static_cast<float>(i));
    graph.launch();
  };
  eager(0);
  eager(1);
  ho::step_graph one = t.capture();
  eager(2);
  launch(one, 3);
  eager(4);
  ho::step_graph two = t.capture();
  launch(two, 5);
  launch(one, 6);
  launch(two, 7);
  eager(8);
  eager(9);
  launch(one, 10);
  CHECK(t.result() == right[10]);
  eager(11);
  CHECK(t.result() == right[11]);
}

TEST_CASE("steps that each follow a launch begin alike, and what comes behind one of them waits for its copies") {
  const gpu g;
  trainer t({.window = 12 * slot, .sample_every = 0}, ho::choice::offload);
  const auto forward = [&t]() -> ho::task<> {  // what is made leaves, behind the step's end
    for (auto& l : t.layers) {
      auto a = co_await l->act;
      add(t.stream.get(), a.data(), a.data(), t.out.data(), n);
    }
  };
  t.give(1);
  t.scheduler.run(forward);
  t.scheduler.run(forward);
  const auto right = t.result();
  ho::step_graph graph = t.scheduler.capture(forward);
  for (int i = 0; i < 4; ++i) {
    graph.launch();
    t.scheduler.run(forward);
  }
  for (int i = 0; i < 4; ++i) t.scheduler.run(forward);
  CHECK(t.result() == right);
}

TEST_CASE("a capture or a launch that fails: what comes behind steps repeated after it waits for their copies",
          "[virtual]") {
  const std::string function = GENERATE("cudaStreamBeginCapture", "cudaGraphLaunch");
  CAPTURE(function);
  const gpu g;
  trainer t({.window = 12 * slot, .sample_every = 0}, ho::choice::offload);
  bool once_more = false;
  const auto forward = [&]() -> ho::task<> {
    for (auto& l : t.layers) {
      auto a = co_await l->act;
      add(t.stream.get(), a.data(), a.data(), t.out.data(), n);
    }
    if (!once_more) co_return;
    auto a = co_await t.layers[0]->act;
    add(t.stream.get(), a.data(), a.data(), t.out.data(), n);
  };
  t.give(1);
  t.scheduler.run(forward);
  ho::step_graph graph = t.scheduler.capture(forward);
  for (int i = 0; i < 20; ++i) t.scheduler.run(forward);
  const auto right = t.result();
  REQUIRE(t.scheduler.report().repeated);
  vg::fail_call(1, cudaErrorLaunchOutOfResources, function);
  CHECK_THROWS_AS(function == "cudaGraphLaunch" ? graph.launch() : void(t.scheduler.capture(forward)), ho::cuda_error);
  for (int i = 0; i < 3; ++i) t.scheduler.run(forward);
  once_more = true;
  for (int i = 0; i < 2; ++i) t.scheduler.run(forward);
  once_more = false;
  t.scheduler.run(forward);
  CHECK(t.result() == right);
}

TEST_CASE("straight-line code is captured") {
  const gpu g;
  std::vector<std::vector<float>> results;
  trainer t({.window = 8 * slot}, ho::choice::offload);
  t.give(1);
  for (int i = 0; i < 2; ++i) {
    ho::step s(t.scheduler);
    t.straight_step();
    s.end();
  }
  const auto right = t.result();
  ho::step_graph graph = t.scheduler.capture([&] { t.straight_step(); });
  t.give(5);
  graph.launch();
  CHECK(t.result() != right);
  t.give(1);
  graph.launch();
  CHECK(t.result() == right);
}

TEST_CASE("copies that nobody waits for are joined before a capture ends") {
  const gpu g;
  trainer t({.window = 8 * slot}, ho::choice::offload);
  t.give(3);
  const auto forward_only = [&] {
    auto a = t.layers[0]->act.fetch(t.stream.get());
    add(t.stream.get(), a.data(), a.data(), t.out.data(), n);
  };
  {
    ho::step s(t.scheduler);
    forward_only();
    s.end();
  }
  const auto right = t.result();
  ho::step_graph graph = t.scheduler.capture(forward_only);
  t.give(4);
  graph.launch();
  CHECK(t.result() != right);
  t.give(3);
  graph.launch();
  CHECK(t.result() == right);
}

TEST_CASE("a launch is one call and the mark behind it, and allocates nothing", "[virtual]") {
  const gpu g;
  trainer t({.window = 6 * slot}, ho::choice::offload);
  t.give(1);
  t.eager();
  t.eager();
  ho::step_graph graph = t.capture();
  graph.launch();
  vg::reset_call_counts();
  for (int i = 0; i < 10; ++i) graph.launch();
  const std::vector<std::pair<std::string_view, std::uint64_t>> calls{{"cudaEventRecord", 10}, {"cudaGraphLaunch", 10}};
  CHECK(vg::call_counts() == calls);
  CHECK(vg::bytes_copied(vg::direction::to_host).copies == 10 * 4 * trainer::count);
}

TEST_CASE("a report says that a step was a launch of a captured one") {
  const gpu g;
  trainer t({.window = 6 * slot}, ho::choice::offload);
  t.give(1);
  t.eager();
  t.eager();
  static_cast<void>(t.result());
  const ho::step_report eager = t.scheduler.report();
  ho::step_graph graph = t.capture();
  CHECK(t.scheduler.report().step == 2);
  graph.launch();
  graph.launch();
  static_cast<void>(t.result());
  const ho::step_report r = t.scheduler.report();
  CHECK(r.step == 4);
  CHECK(r.replays == 2);
  CHECK(eager.replays == 0);
  CHECK(r.bytes_out == eager.bytes_out);
  CHECK(r.copies_in != 0);
  CHECK_FALSE(r.sampled);
  std::ostringstream text;
  std::ostringstream json;
  text << r;
  ho::to_json(json, r);
  CHECK_THAT(text.str(), Catch::Contains("launch 2 of a captured step"));
  CHECK_THAT(json.str(), Catch::Contains("\"replays\": 2"));
}

TEST_CASE("what a captured step must not do is an error that says so, and the scheduler is as before") {
  const gpu g;
  const auto right = expected(1);
  trainer t({.window = 8 * slot}, ho::choice::offload);
  ho::host_values<float> values(t.scheduler, 4);
  const auto rest_of_test = [&] {
    t.give(0);
    t.eager();
    CHECK(t.result() == right[0]);
    ho::step_graph graph = t.capture();
    graph.launch();
    CHECK(t.result() == right[0]);
  };
  t.give(0);
  t.eager();
  SECTION("wait for a value on the host") {
    const auto step = [&]() -> ho::task<> {
      auto a = co_await t.layers[0]->act;
      auto read = co_await values.read(a.data(), 4, t.stream.get());
      static_cast<void>(read);
    };
    CHECK_THAT(thrown_by<ho::usage_error>([&] { static_cast<void>(t.scheduler.capture(step)); }),
               Catch::Contains("host_values::read of 4 elements") && Catch::Contains("cannot be captured"));
  }
  SECTION("ask for a report") {
    const auto step = [&] { static_cast<void>(t.scheduler.report()); };
    CHECK_THAT(thrown_by<ho::usage_error>([&] { static_cast<void>(t.scheduler.capture(step)); }),
               Catch::Contains("report: "));
  }
  SECTION("other sizes than tensors were built for") {
    const auto step = [&] { t.layers[0]->input.resize(n / 2); };
    CHECK_THAT(thrown_by<ho::usage_error>([&] { static_cast<void>(t.scheduler.capture(step)); }),
               Catch::Contains("input[0]") && Catch::Contains("in a captured step"));
  }
  SECTION("begin another step, or launch one") {
    ho::step_graph graph = t.capture();
    const auto step = [&] { t.eager(); };
    CHECK_THAT(thrown_by<ho::usage_error>([&] { static_cast<void>(t.scheduler.capture(step)); }),
               Catch::Contains("another one"));
    const auto launches = [&] { graph.launch(); };
    CHECK_THAT(thrown_by<ho::usage_error>([&] { static_cast<void>(t.scheduler.capture(launches)); }),
               Catch::Contains("while another step"));
  }
  SECTION("an allocation of the trainer's own") {
    const auto step = [&] {
      t.straight_step();
      void* p = nullptr;
      ho::check(cudaMalloc(&p, 64), "cudaMalloc");
    };
    CHECK_THAT(thrown_by<ho::cuda_error>([&] { static_cast<void>(t.scheduler.capture(step)); }),
               Catch::Contains("cudaErrorStreamCaptureUnsupported"));
    const auto unnoticed = [&] {
      t.straight_step();
      void* p = nullptr;
      static_cast<void>(cudaMalloc(&p, 64));
      static_cast<void>(cudaGetLastError());
    };
    CHECK_THAT(thrown_by<ho::cuda_error>([&] { static_cast<void>(t.scheduler.capture(unnoticed)); }),
               Catch::Contains("cudaStreamEndCapture") && Catch::Contains("cudaErrorStreamCaptureInvalidated"));
  }
  SECTION("a stream of the trainer's that is not joined") {
    const owned_stream other;
    const auto step = [&] {
      {
        auto a = t.layers[0]->act.fetch(other.get());
        add(other.get(), a.data(), a.data(), t.aside.data(), n);
      }
      add(other.get(), t.aside.data(), t.aside.data(), t.aside.data(), n);  // after the lease: nobody knows of it
    };
    CHECK_THAT(thrown_by<ho::cuda_error>([&] { static_cast<void>(t.scheduler.capture(step)); }),
               Catch::Contains("cudaErrorStreamCaptureUnjoined"));
  }
  SECTION("an exception") {
    struct stop {};
    const auto step = [&]() -> ho::task<> {
      auto a = co_await t.layers[1]->act;
      throw stop{};
    };
    CHECK_THROWS_AS(t.scheduler.capture(step), stop);
    const auto straight = [&] {
      t.straight_step();
      throw stop{};
    };
    CHECK_THROWS_AS(t.scheduler.capture(straight), stop);
  }
  SECTION("a lease that is held at its end") {
    std::vector<ho::lease<const float>> held;
    const auto step = [&] { held.push_back(t.layers[0]->act.fetch(t.stream.get())); };
    CHECK_THAT(thrown_by<ho::usage_error>([&] { static_cast<void>(t.scheduler.capture(step)); }),
               Catch::Contains("the step ends while a lease"));
  }
  rest_of_test();
}

TEST_CASE("device memory that no step has needed before is not allocated in a capture") {
  const gpu g;
  trainer t({}, ho::choice::save);
  t.give(0);
  CHECK_THAT(thrown_by<ho::usage_error>([&] { static_cast<void>(t.capture()); }),
             Catch::Contains("run such a step once") && Catch::Contains("act[0]"));
  t.eager();
  ho::step_graph graph = t.capture();
  graph.launch();
  static_cast<void>(t.result());
}

TEST_CASE("a tensor destroyed while a step is captured: who gets its memory waits for nothing outside of the capture") {
  const gpu g;
  const owned_stream compute;
  const owned_stream second;
  ho::prefetch_scheduler scheduler({.compute = compute.get(), .observer = watched});
  const auto build = [&] {
    return std::make_unique<tensor<name::up>>(scheduler, n, ho::layer_position{}, ho::choice::save);
  };
  auto first = build();
  {
    ho::step s(scheduler);
    first->produce(compute.get()).end();
    s.end();
  }
  std::unique_ptr<tensor<name::up>> next;
  const device_floats out{n};
  ho::step_graph graph = scheduler.capture([&] {
    {
      auto lease = first->produce(compute.get());
      fill(compute.get(), lease.data(), n, 1);
    }
    first.reset();
    next = build();
    auto lease = next->produce(second.get());
    fill(second.get(), lease.data(), n, 2);
    lease.end();
    auto again = next->fetch(compute.get());
    add(compute.get(), again.data(), again.data(), out.data(), n);
  });
  graph.launch();
  std::vector<float> values(n);
  REQUIRE(cudaMemcpyAsync(values.data(), out.data(), slot, cudaMemcpyDeviceToHost, compute.get()) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(compute.get()) == cudaSuccess);
  CHECK(values.back() == 2 * (2 + static_cast<float>(n - 1)));
}

TEST_CASE("pinned memory that has to make room is given back behind the launches that copy to it") {
  const gpu g;
  const owned_stream compute;
  ho::prefetch_scheduler scheduler({.compute = compute.get(), .host_capacity = slot, .observer = watched});
  const auto build = [&](std::size_t elements) {
    return std::make_unique<tensor<name::up>>(scheduler, elements, ho::layer_position{}, ho::choice::offload);
  };
  auto kept = build(n);
  const auto step = [&] {
    auto lease = kept->produce(compute.get());
    fill(compute.get(), lease.data(), lease.size(), 1);
    lease.end();
    std::move(*kept).fetch(compute.get()).end();
  };
  const auto run = [&] {
    ho::step s(scheduler);
    step();
    s.end();
  };
  run();
  ho::step_graph graph = scheduler.capture(step);
  graph.launch();
  kept.reset();
  kept = build(1);  // its slot is of another size: the old memory is given up in the next step
  run();
  kept.reset();
  kept = build(n);
  CHECK_NOTHROW(run());
}

TEST_CASE("the legacy default stream cannot be captured") {
  const gpu g;
  ho::prefetch_scheduler scheduler({});
  CHECK_THAT(thrown_by<ho::usage_error>([&] { static_cast<void>(scheduler.capture([] {})); }),
             Catch::Contains("a compute stream of its own"));
}

TEST_CASE("a graph that no longer fits its scheduler is stale, and says why") {
  const gpu g;
  trainer t({.window = 8 * slot}, ho::choice::offload);
  t.give(0);
  t.eager();
  ho::step_graph graph = t.capture();
  ho::step_graph moved = std::move(graph);
  moved.launch();
  tensor<name::up> more(t.scheduler, n, {}, ho::choice::offload);
  moved.launch();
  SECTION("a tensor is gone") {
    t.layers.back().reset();
    CHECK_THAT(thrown_by<ho::stale_graph_error>([&] { moved.launch(); }),
               Catch::Contains("a tensor was destroyed") && Catch::Contains("capture it again"));
  }
  static_cast<void>(t.result());
}

TEST_CASE("a graph outlives its scheduler only to be destroyed, and memory goes when the last launch is done") {
  const gpu g;
  std::unique_ptr<ho::step_graph> graph;
  {
    trainer t({.window = 8 * slot}, ho::choice::offload);
    t.give(0);
    t.eager();
    graph = std::make_unique<ho::step_graph>(t.capture());
    vg::delay(vg::operation_kind::copy_to_host, 1e-3);
    graph->launch();
  }
  CHECK_THAT(thrown_by<ho::usage_error>([&] { graph->launch(); }), Catch::Contains("has been destroyed"));
}

TEST_CASE("every wait of a capture is needed: without it the detector objects, there is no graph, or a later wait does",
          "[virtual]") {
  const gpu g;
  const auto run = [](std::uint64_t dropped) {
    vg::clear_faults();
    trainer t({.window = 6 * slot}, ho::choice::offload);
    t.give(0);
    t.eager();
    t.eager();
    static_cast<void>(t.result());
    vg::clear_findings();
    if (dropped == 0) {
      vg::watch_waits();
    } else {
      vg::ignore_wait(dropped);
    }
    std::size_t seen = 0;
    try {
      ho::step_graph graph = t.capture();
      seen = vg::waits().size();
      graph.launch();
      static_cast<void>(t.result());
    } catch (const ho::cuda_error&) {
      vg::clear_faults();
      vg::clear_findings();
      return std::size_t{1};
    }
    if (dropped == 0) return seen;
    const vg::wait_record wait = vg::waits().at(dropped - 1);
    CHECK(wait.ignored);
    CHECK_FALSE(wait.implied);
    const std::size_t found = vg::findings().size();
    vg::clear_findings();
    return found + (wait.implied_later ? 1 : 0);
  };
  const std::size_t waits = run(0);
  CHECK(waits > 10);
  CHECK(gpu::text_of(vg::findings()).empty());
  for (std::uint64_t i = 1; i <= waits; ++i) {
    CAPTURE(i);
    CHECK(run(i) != 0);
  }
  vg::clear_faults();
}

TEST_CASE("every CUDA call of a capture and of a launch fails once: a typed error, no leak, the next step right",
          "[virtual]") {
  std::vector<float> right;
  {
    const gpu g;
    right = expected(1)[0];
  }
  std::uint64_t calls = 1;
  for (std::uint64_t failing = 0; failing <= calls; ++failing) {
    CAPTURE(failing);
    const gpu g;
    bool stays = false;  // what cannot be destroyed
    {
      trainer t({.window = 6 * slot}, ho::choice::offload);
      t.give(0);
      t.eager();
      t.eager();
      static_cast<void>(t.result());
      const std::uint64_t before = vg::calls_until_now();
      if (failing != 0) vg::fail_call(failing, cudaErrorLaunchOutOfResources);
      bool threw = false;
      try {
        ho::step_graph graph = t.capture();
        graph.launch();
      } catch (const ho::cuda_error& e) {
        threw = true;
        CHECK(e.code() == cudaErrorLaunchOutOfResources);
      }
      if (failing == 0) calls = vg::calls_until_now() - before;
      const auto failed = vg::failed_call();
      stays = failed && (failed->function == "cudaGraphDestroy" || failed->function == "cudaGraphExecDestroy");
      CHECK(threw == (failing != 0 && !stays));
      vg::clear_faults();
      t.give(0);
      t.eager();
      CHECK(t.result() == right);
      ho::step_graph graph = t.capture();
      graph.launch();
      CHECK(t.result() == right);
    }
    if (stays) {
      CHECK(vg::leaks().size() == 1);
      vg::reset(vg::gb200());
    }
  }
  CHECK(calls > 50);
}
