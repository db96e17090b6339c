#pragma once
// Recorded steps for tests: by hand, and drawn from a seed.

#include <hostoffload/schedule/recorded_step.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ho = hostoffload;

/// Bytes that take one second on the links of hand-made steps.
inline constexpr std::size_t second = 2560;

inline ho::link_direction unit_link() { return {.rate = second, .rate_while_both = second, .latency_s = 0}; }

inline ho::recorded_life life(std::string name, std::size_t bytes, std::vector<ho::recorded_use> uses) {
  return {.name = std::move(name), .layer = 0, .bytes = bytes, .placed = ho::choice::offload, .uses = std::move(uses)};
}

/// Layers forward and backward, as many times as there are micro batches; every lease begins and ends at points of its
/// own.
inline ho::recorded_step drawn_step(std::uint64_t seed, int most_layers, int most_tensors, int most_batches) {
  std::mt19937_64 draw(seed);
  const auto between = [&](int a, int b) { return std::uniform_int_distribution<int>(a, b)(draw); };
  const auto real = [&](double a, double b) { return std::uniform_real_distribution<double>(a, b)(draw); };
  struct moment {
    double when;
    std::size_t life;
    bool begins;
  };
  ho::recorded_step step;
  std::vector<moment> moments;
  const int layers = between(2, most_layers);
  const int batches = between(1, most_batches);
  double now = 0;
  double all = 0;
  std::vector<std::vector<std::size_t>> sizes(static_cast<std::size_t>(layers));
  for (auto& layer : sizes) {
    layer.resize(static_cast<std::size_t>(between(1, most_tensors)));
    for (std::size_t& bytes : layer) {
      bytes = static_cast<std::size_t>(std::exp(real(std::log(65536.0), std::log(2147483648.0))));
      all += static_cast<double>(bytes);
    }
  }
  for (int batch = 0; batch < batches; ++batch, now += 3.0 * layers) {
    for (int l = 0; l < layers; ++l) {
      for (const std::size_t bytes : sizes[static_cast<std::size_t>(l)]) {
        const std::size_t id = step.lives.size();
        step.lives.push_back(life("t", bytes, {}));
        step.lives.back().layer = static_cast<std::size_t>(l);
        step.lives.back().tensor = static_cast<std::uint32_t>(id);
        const double made = now + l + real(0, 0.9);
        moments.push_back({made, id, true});
        moments.push_back({made + 0.05, id, false});
        const double backward = now + layers + 2.0 * (layers - 1 - l);
        for (int use = between(1, 2); use > 0; --use) {
          const double used = backward + real(0, 0.9) + (use == 1 ? 1 : 0);
          moments.push_back({used, id, true});
          moments.push_back({used + 0.05, id, false});
        }
      }
    }
  }
  std::stable_sort(moments.begin(), moments.end(), [](const moment& a, const moment& b) { return a.when < b.when; });
  const double copies_over_compute = real(0.1, 1.5);
  const double per_unit = all * batches / 100e9 / copies_over_compute / now;  // seconds
  double before = 0;
  for (const moment& m : moments) {
    step.segment_s.push_back((m.when - before) * per_unit);
    before = m.when;
    auto& uses = step.lives[m.life].uses;
    const auto here = static_cast<std::uint32_t>(step.segment_s.size());
    if (m.begins)
      uses.push_back({here, here});
    else
      uses.back().end = here;
  }
  step.segment_s.push_back(std::max(0.0, now - before) * per_unit);
  const double ratio = real(1, 3);
  step.out = {.rate = 100e9 * std::sqrt(ratio), .rate_while_both = 85e9 * std::sqrt(ratio), .latency_s = 2e-6};
  step.in = {.rate = 100e9 / std::sqrt(ratio), .rate_while_both = 85e9 / std::sqrt(ratio), .latency_s = 2e-6};
  if (between(0, 1) == 1) std::swap(step.out, step.in);
  return step;
}
