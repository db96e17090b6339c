// The smallest trainer: straight-line code and raw pointers. h[l+1] = tanh(w[l] h[l]), element by element; the backward
// pass needs every h[l]. Where they stay until then is one word in `placement`.

#include <hostoffload/hostoffload.hpp>
#include <hostoffload/launch.hpp>

#include <cmath>
#include <cstddef>
#include <exception>
#include <iostream>
#include <memory>
#include <vector>

namespace {

namespace ho = hostoffload;
enum class name { h };
using placement = ho::placement<name, ho::offload_these<name::h>>;
using activation = ho::offload_tensor<float, placement::of<name::h>>;
constexpr std::size_t n = 1U << 16U;  // elements of a layer
constexpr std::size_t bytes = n * sizeof(float);
constexpr std::size_t layers = 24;

void load(cudaStream_t stream, float* to, float first) {
  ho::launch(stream, n, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { to[i] = first + 0.05F * static_cast<float>(i % 11); },
             {.name = "load", .writes = {{to, bytes}}});
}

void forward(cudaStream_t stream, const float* w, const float* h, float* out) {
  ho::launch(stream, n, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { out[i] = std::tanh(w[i] * h[i]); },
             {.name = "forward", .reads = {{w, bytes}, {h, bytes}}, .writes = {{out, bytes}}, .flops = 10.0 * n});
}

/// d = out − 1/2, the gradient of loss = Σ d² / 2.
void loss(cudaStream_t stream, const float* out, float* d) {
  ho::launch(stream, n, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { d[i] = out[i] - 0.5F; },
             {.name = "loss", .reads = {{out, bytes}}, .writes = {{d, bytes}}});
}

/// From d = dloss/dh[l+1] to dloss/dh[l], in place; one step of gradient descent for w.
void backward(cudaStream_t stream, float* w, const float* h, const float* out, float* d) {
  ho::launch(stream, n,
             [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
               const float inner = d[i] * (1 - out[i] * out[i]);
               d[i] = inner * w[i];
               w[i] -= 0.1F * inner * h[i];
             },
             {.name = "backward",
              .reads = {{w, bytes}, {h, bytes}, {out, bytes}, {d, bytes}},
              .writes = {{w, bytes}, {d, bytes}}});
}

void train(cudaStream_t stream) {
  const ho::device_allocation weights(layers * bytes), gradient(bytes);
  auto* const w = static_cast<float*>(weights.region().begin);
  auto* const d = static_cast<float*>(gradient.region().begin);
  for (std::size_t l = 0; l < layers; ++l) load(stream, w + l * n, 1.2F);

  ho::prefetch_scheduler scheduler({.compute = stream, .window = 6 * bytes});
  std::vector<std::unique_ptr<activation>> h;  // the input of each layer, and the output of the last
  while (h.size() <= layers) h.push_back(std::make_unique<activation>(scheduler, n));
  for (int iteration = 0; iteration < 20; ++iteration) {
    ho::step step(scheduler);
    {
      auto input = h[0]->produce(stream);  // device memory to fill
      load(stream, input.data(), 0.1F);
    }
    for (std::size_t l = 0; l < layers; ++l) {
      auto in = h[l]->fetch(stream);
      auto out = h[l + 1]->produce(stream);
      forward(stream, w + l * n, in.data(), out.data());
    }
    auto out = std::move(*h[layers]).fetch(stream);  // the last use: when the lease ends its memory goes back
    loss(stream, out.data(), d);
    if (iteration % 19 == 0) {
      float miss = 0;
      ho::check(cudaMemcpy(&miss, d, sizeof miss, cudaMemcpyDeviceToHost), "cudaMemcpy");  // waits
      std::cout << "iteration " << iteration << ": output[0] is off by " << miss << '\n';
    }
    for (std::size_t l = layers; l-- > 0;) {
      auto in = std::move(*h[l]).fetch(stream);
      backward(stream, w + l * n, in.data(), out.data(), d);
      out = std::move(in);
    }
    out.end();
    step.end();  // all is enqueued; the device may still be at work
  }
  ho::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  std::cout << scheduler.report();
}

}  // namespace

int main() try {
  train(cudaStreamLegacy);  // the default stream, as in many trainers
} catch (const std::exception& e) {
  std::cerr << "minimal: " << e.what() << '\n';
  return 1;
}
