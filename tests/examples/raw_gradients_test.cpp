// The backward pass that the raw trainers write by hand, against differences of their forward pass.

#include "catch.hpp"

#include <hostoffload/virtual_gpu/control.hpp>

#define main raw_trainer_again
#include "raw_trainer.cu"
#undef main

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace {

std::vector<float> values_of(const float* p, std::size_t n) {
  std::vector<float> values(n);
  REQUIRE(cudaMemcpy(values.data(), p, n * sizeof *p, cudaMemcpyDeviceToHost) == cudaSuccess);
  return values;
}

void add_at(float* p, float change) {
  float value = values_of(p, 1)[0] + change;
  REQUIRE(cudaMemcpy(p, &value, sizeof value, cudaMemcpyHostToDevice) == cudaSuccess);
}

}  // namespace

TEST_CASE("raw trainers: gradients of a block are those of differences") {
  hostoffload::virtual_gpu::reset(hostoffload::virtual_gpu::gb200());
  arena memory(std::size_t{16} << 20U);
  float* const w = memory.take(parameters);
  float* const dw = memory.take(parameters);
  float* const input = memory.take(narrow);
  float* const h = memory.take(narrow);
  float* const weight_of_loss = memory.take(narrow);
  float* const dh = memory.take(narrow);
  float* const d1 = memory.take(wide);
  float* const d2 = memory.take(wide);
  float* const d3 = memory.take(wide);
  float* const scale = memory.take(2 * rows);
  const saved<float> a{memory.take(narrow),
                       memory.take(3 * narrow),
                       memory.take(scores),
                       memory.take(narrow),
                       memory.take(narrow),
                       memory.take(wide),
                       scale,
                       scale + rows};
  raw::fill_random(nullptr, w, parameters, 1, 0.5F);
  raw::fill_random(nullptr, input, narrow, 2, 1);
  raw::fill_random(nullptr, weight_of_loss, narrow, 3, 1);

  const auto loss = [&] {
    REQUIRE(cudaMemcpy(h, input, narrow * sizeof *h, cudaMemcpyDeviceToDevice) == cudaSuccess);
    block_forward(nullptr, block(w, 0), h, d1, a);
    const std::vector<float> out = values_of(h, narrow);
    const std::vector<float> weights = values_of(weight_of_loss, narrow);
    return std::inner_product(out.begin(), out.end(), weights.begin(), 0.0);
  };
  loss();
  REQUIRE(cudaMemcpy(dh, weight_of_loss, narrow * sizeof *dh, cudaMemcpyDeviceToDevice) == cudaSuccess);
  block_backward(nullptr, block(w, 0), block(dw, 0), dh, d1, d2, d3,
                 {a.norm1, a.qkv, a.probs, a.context, a.norm2, a.up, a.scale1, a.scale2});

  const auto check = [&](float* p, const float* gradient) {
    constexpr float change = 1.0F / 64;
    add_at(p, change);
    const double above = loss();
    add_at(p, -2 * change);
    const double below = loss();
    add_at(p, change);
    const double expected = (above - below) / (2 * change);
    CHECK(values_of(gradient, 1)[0] == Approx(expected).epsilon(0.02).margin(0.02));
  };
  for (const std::size_t i : {std::size_t{0}, std::size_t{37}, narrow / 2 + 5, narrow - 1}) check(input + i, dh + i);
  const block_weights p = block(w, 0);
  const block_weights d = block(dw, 0);
  for (const std::size_t i : {std::size_t{3}, width * width + 7, 2 * width * width + 40}) check(p.qkv + i, d.qkv + i);
  for (const std::size_t i : {std::size_t{0}, width * width - 1}) check(p.out + i, d.out + i);
  for (const std::size_t i : {std::size_t{9}, feed_forward * width - 2}) {
    check(p.up + i, d.up + i);
    check(p.down + i, d.down + i);
  }
}

TEST_CASE("raw trainers: gradients of the loss, the norm and the embeddings are those of differences") {
  hostoffload::virtual_gpu::reset(hostoffload::virtual_gpu::gb200());
  arena memory(std::size_t{4} << 20U);
  float* const tables = memory.take((vocabulary + sequence) * width);
  float* const dtables = memory.take((vocabulary + sequence) * width);
  float* const positions = tables + vocabulary * width;
  float* const h = memory.take(narrow);
  float* const dh = memory.take(narrow);
  float* const y = memory.take(narrow);
  float* const scale = memory.take(rows);
  float* const losses = memory.take(rows);
  int* const tokens = memory.take<int>(rows);
  int* const targets = memory.take<int>(rows);
  std::vector<int> inputs(rows);
  std::vector<int> wanted(rows);
  load(inputs, wanted, 1);
  for (int& t : wanted) t %= static_cast<int>(width);
  REQUIRE(cudaMemcpy(tokens, inputs.data(), rows * sizeof(int), cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(cudaMemcpy(targets, wanted.data(), rows * sizeof(int), cudaMemcpyHostToDevice) == cudaSuccess);
  raw::fill_random(nullptr, tables, (vocabulary + sequence) * width, 5, 1);

  const auto loss = [&] {  // the normalised embeddings are the logits
    raw::embed(nullptr, tokens, tables, positions, h, rows, sequence, width, vocabulary);
    raw::rms_norm(nullptr, h, y, scale, rows, width);
    REQUIRE(cudaMemcpy(dh, y, narrow * sizeof *y, cudaMemcpyDeviceToDevice) == cudaSuccess);
    raw::cross_entropy(nullptr, dh, targets, losses, rows, width);
    const std::vector<float> each = values_of(losses, rows);
    return std::accumulate(each.begin(), each.end(), 0.0) / static_cast<double>(rows);
  };
  loss();
  float* const dnorm = memory.take(narrow);
  REQUIRE(cudaMemset(dnorm, 0, narrow * sizeof *dnorm) == cudaSuccess);
  raw::rms_norm_backward(nullptr, y, scale, dh, dnorm, rows, width);
  raw::embed_backward(nullptr, tokens, dnorm, dtables, dtables + vocabulary * width, rows, sequence, width, vocabulary);
  const std::size_t token = static_cast<std::size_t>(inputs[0]) * width;
  for (const std::size_t i : {token, token + 5, vocabulary * width, vocabulary * width + 3 * width + 1}) {
    constexpr float change = 1.0F / 32;
    add_at(tables + i, change);
    const double above = loss();
    add_at(tables + i, -2 * change);
    const double below = loss();
    add_at(tables + i, change);
    CHECK(values_of(dtables + i, 1)[0] == Approx((above - below) / (2 * change)).epsilon(0.02).margin(2e-4));
  }
}

TEST_CASE("raw trainers: AdamW takes the first step in the gradients' direction, of the learning rate's length") {
  hostoffload::virtual_gpu::reset(hostoffload::virtual_gpu::gb200());
  arena memory(4096);
  float* const p = memory.take(2);
  float* const g = memory.take(2);
  float* const m = memory.take(4);
  const std::vector<float> values{1, -2};
  const std::vector<float> gradients{0.25F, -4};
  REQUIRE(cudaMemcpy(p, values.data(), 8, cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(cudaMemcpy(g, gradients.data(), 8, cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(cudaMemset(m, 0, 16) == cudaSuccess);
  raw::adamw(nullptr, p, g, m, m + 2, 2, 0.1F, 1);
  CHECK(values_of(p, 2)[0] == Approx(1 - 0.1 * (1 + 0.01 * 1)));
  CHECK(values_of(p, 2)[1] == Approx(-2 + 0.1 * (1 + 0.01 * 2)));
}
