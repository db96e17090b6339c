#include "idioms.hpp"

#include <hostoffload/hostoffload.hpp>
#include <hostoffload/launch.hpp>

#include <cuda_runtime_api.h>

#include <deque>
#include <initializer_list>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ho = hostoffload;
using namespace ho::literals;

namespace idioms {
namespace {

void check(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

// Kernels are launched by named functions: nvcc takes a device lambda in no other place.

constexpr std::size_t bytes = elements * sizeof(float);

void fill(cudaStream_t stream, float* out) {
  ho::launch(stream, elements, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { out[i] = static_cast<float>(i); },
             {.name = "fill", .writes = {{out, bytes}}});
}

/// out = factor * x + shift
void scale(cudaStream_t stream, float factor, const float* x, float shift, float* out) {
  ho::launch(stream, elements, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { out[i] = factor * x[i] + shift; },
             {.name = "scale", .reads = {{x, bytes}}, .writes = {{out, bytes}}, .flops = 2.0 * elements});
}

/// out = a + b; out may be a or b
void add(cudaStream_t stream, const float* a, const float* b, float* out) {
  ho::launch(stream, elements, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { out[i] = a[i] + b[i]; },
             {.name = "add", .reads = {{a, bytes}, {b, bytes}}, .writes = {{out, bytes}}, .flops = 1.0 * elements});
}

/// Device memory of the trainer's own, zero at first.
class sum {
public:
  explicit sum(cudaStream_t stream) : stream_(stream) {
    check(cudaMalloc(&data_, bytes));
    check(cudaMemsetAsync(data_, 0, bytes, stream_));
  }
  sum(const sum&) = delete;
  sum& operator=(const sum&) = delete;
  ~sum() { static_cast<void>(cudaFree(data_)); }

  void operator+=(std::span<const float> values) { add(stream_, data(), values.data(), data()); }
  [[nodiscard]] float* data() const { return static_cast<float*>(data_); }
  [[nodiscard]] std::vector<float> to_host() const {
    std::vector<float> values(elements);
    check(cudaMemcpyAsync(values.data(), data_, bytes, cudaMemcpyDeviceToHost, stream_));
    check(cudaStreamSynchronize(stream_));
    return values;
  }

private:
  void* data_ = nullptr;
  cudaStream_t stream_;
};

enum class name { input, gate, up, act };
using table =
    ho::placement<name, ho::save_these<name::input>, ho::on_layers<0, -1, ho::offload_these<name::gate, name::up>>,
                  ho::on_layers<-1, ho::end, ho::save_these<name::gate, name::up>>, ho::remat_these<name::act>>;

struct layer {
  /// The first layer has no `below`.
  layer(ho::prefetch_scheduler& scheduler, cudaStream_t stream, layer* below, ho::layer_position at)
      : input(scheduler, elements, at),
        gate(scheduler, elements, at),
        up(scheduler, elements, at),
        act(scheduler, elements, at) {
    if (below == nullptr) {
      input.define([stream](std::span<float> out) { fill(stream, out.data()); });
    } else {
      input.define([stream, below](std::span<float> out) -> ho::task<> {
        auto act_below = co_await below->act;
        scale(stream, 1, act_below.data(), 0, out.data());
      });
    }
    auto gate_and_up = [this, stream](std::span<float> gate_out, std::span<float> up_out) -> ho::task<> {
      auto x = co_await input;
      scale(stream, 1, x.data(), 1, gate_out.data());
      scale(stream, 2, x.data(), 0, up_out.data());
    };
    ho::define_group(std::move(gate_and_up), gate, up);
    act.define([this, stream](std::span<float> out) -> ho::task<> {
      auto g = co_await gate;
      auto u = co_await up;
      add(stream, g.data(), u.data(), out.data());
    });
  }

  ho::offload_tensor<float, table::of<name::input>> input;
  ho::offload_tensor<float, table::of<name::gate>> gate;
  ho::offload_tensor<float, table::of<name::up>> up;
  ho::offload_tensor<float, table::of<name::act>> act;
};

class model {
public:
  model(ho::prefetch_scheduler& scheduler, cudaStream_t stream) : gradient_(stream) {
    layer* below = nullptr;
    for (std::size_t i = 0; i < layers; ++i) {
      below = &layers_.emplace_back(scheduler, stream, below, ho::layer_position{i, layers});
    }
  }

  ho::task<> forward() { auto last = co_await layers_.back().act; }

  /// Returns how many layers it saw.
  ho::task<std::size_t> backward() {
    std::size_t seen = 0;
    for (auto at = layers_.rbegin(); at != layers_.rend(); ++at, ++seen) {
      {
        auto act = co_await std::move(at->act);
        gradient_ += act.span();
      }
      auto gate = co_await std::move(at->gate);
      gate.end();
      auto up = co_await std::move(at->up);
      up.end();
      auto input = co_await std::move(at->input);
      gradient_ += input.span();
    }
    co_return seen;
  }

  ho::task<std::size_t> step() {
    co_await forward();
    const std::size_t seen = co_await backward();
    co_return seen;
  }

  [[nodiscard]] std::vector<float> gradient() const { return gradient_.to_host(); }

private:
  std::deque<layer> layers_;
  sum gradient_;
};

}  // namespace

std::vector<float> table_and_coroutines() {
  ho::stream compute;
  ho::prefetch_scheduler scheduler({.compute = compute.get(), .window = 1_MiB, .host_capacity = 1_MiB});
  model m(scheduler, compute.get());
  const std::size_t seen = scheduler.run([&] { return m.step(); });
  if (seen != layers) throw std::runtime_error("a task's value was lost");
  return m.gradient();
}

std::vector<float> captured_step() {
  ho::stream compute;
  ho::prefetch_scheduler scheduler({.compute = compute.get(), .window = 1_MiB, .host_capacity = 1_MiB});
  model m(scheduler, compute.get());
  scheduler.run([&] { return m.step(); });
  ho::step_graph graph = scheduler.capture([&] { return m.step(); });
  for (int i = 0; i < 2; ++i) graph.launch();
  return m.gradient();
}

std::vector<float> two_tasks() {
  ho::stream compute;
  ho::prefetch_scheduler scheduler({.compute = compute.get(), .window = 1_MiB, .host_capacity = 1_MiB});
  model a(scheduler, compute.get());
  model b(scheduler, compute.get());
  auto both = [&a, &b]() -> ho::task<> {
    co_await ho::when_all(a.forward(), b.forward());
    auto last = b.backward();
    const std::size_t seen_a = co_await a.backward();
    const std::size_t seen_b = co_await last;
    if (seen_a != seen_b) throw std::runtime_error("a task's value was lost");
  };
  scheduler.run(both);
  std::vector<float> total = a.gradient();
  const std::vector<float> other = b.gradient();
  for (std::size_t i = 0; i < elements; ++i) total[i] += other[i];
  return total;
}

std::vector<float> second_stream() {
  ho::stream compute;
  ho::stream side;
  ho::prefetch_scheduler scheduler({.compute = compute.get()});
  ho::offload_tensor<float, ho::offload> x(scheduler, elements);
  x.define([&compute](std::span<float> out) { fill(compute.get(), out.data()); });
  sum result(side.get());
  auto step = [&]() -> ho::task<> {
    { auto made = co_await x; }
    auto once = co_await x.on(side.get());
    result += once.span();
    once.end();
    auto twice = co_await std::move(x).on(side.get());
    result += twice.span();
  };
  scheduler.run(step);
  return result.to_host();
}

std::vector<float> straight_lines() {
  ho::stream compute;
  const cudaStream_t stream = compute.get();
  ho::prefetch_scheduler scheduler({.compute = stream, .window = 1_MiB, .host_capacity = 1_MiB});
  ho::offload_tensor<float, ho::save> input(scheduler, elements);
  ho::offload_tensor<float, ho::offload> gate(scheduler, elements);
  ho::offload_tensor<float, ho::remat> act(scheduler, elements);
  act.define([&](std::span<float> out) {
    auto x = input.fetch(stream);
    auto g = gate.fetch(stream);
    scale(stream, 2, x.data(), 0, out.data());
    add(stream, g.data(), out.data(), out.data());
  });
  sum result(stream);

  ho::step step(scheduler);
  {
    auto x = input.produce(stream);
    fill(stream, x.data());
  }
  {
    auto x = input.fetch(stream);
    auto g = gate.produce(stream);
    scale(stream, 1, x.data(), 1, g.data());
  }
  { auto a = act.fetch(stream); }
  auto a = std::move(act).fetch(stream);
  result += a.span();
  a.end();
  step.end();
  return result.to_host();
}

std::vector<float> choices_at_construction() {
  ho::stream compute;
  ho::prefetch_scheduler scheduler({.compute = compute.get(), .window = 1_MiB, .host_capacity = 1_MiB});
  sum result(compute.get());
  for (const ho::choice chosen : {ho::choice::save, ho::choice::offload, ho::choice::remat, ho::choice::offload_or_save,
                                  ho::choice::offload_or_remat}) {
    ho::offload_tensor<float, ho::any_placement<name::gate>> x(scheduler, elements, ho::layer_position{}, chosen);
    x.define([&compute](std::span<float> out) { fill(compute.get(), out.data()); });
    auto step = [&]() -> ho::task<> {
      { auto made = co_await x; }
      auto again = co_await std::move(x);
      result += again.span();
    };
    scheduler.run(step);
  }
  return result.to_host();
}

std::vector<float> value_for_the_host() {
  ho::stream compute;
  ho::prefetch_scheduler scheduler({.compute = compute.get()});
  ho::offload_tensor<float, ho::offload> x(scheduler, elements);
  x.define([&compute](std::span<float> out) { fill(compute.get(), out.data()); });
  ho::host_values<float> counts(scheduler, 1);
  sum result(compute.get());
  auto step = [&]() -> ho::task<> {
    auto made = co_await x;
    auto seven = co_await counts.read(made.data() + 7, 1, compute.get());
    scale(compute.get(), seven[0], made.data(), 0, result.data());
  };
  scheduler.run(step);
  return result.to_host();
}

namespace {

ho::step_report report_of_one_step() {
  ho::stream compute;
  ho::prefetch_scheduler scheduler({.compute = compute.get(), .window = 1_MiB, .host_capacity = 1_MiB});
  model m(scheduler, compute.get());
  scheduler.run([&] { return m.step(); });
  check(cudaStreamSynchronize(compute.get()));
  return scheduler.report();
}

}  // namespace

std::string report_text() {
  std::ostringstream text;
  text << report_of_one_step();
  return text.str();
}

std::string report_json() {
  std::ostringstream text;
  ho::to_json(text, report_of_one_step());
  return text.str();
}

}  // namespace idioms
