#include "workload.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace schedules {
namespace {

/// Uniform draws that are the same on every platform, which those of <random> are not.
class draws {
public:
  explicit draws(std::uint64_t seed) : engine_(seed) {}
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(engine_() >> 11U) * 0x1p-53;
  }
  double log_between(double low, double high) { return std::exp(between(std::log(low), std::log(high))); }
  std::size_t integer(std::size_t low, std::size_t high) {  // inclusive
    return std::min(high, low + static_cast<std::size_t>(between(0, static_cast<double>(high - low + 1))));
  }

private:
  std::mt19937_64 engine_;
};

struct place_of_tensor {
  std::size_t bytes = 0;
  double made = 0;             // share of the layer's forward pass that is done when the tensor is
  std::vector<double> used{};  // shares of its backward pass, ascending
};

/// The segments of a layer's pass end where tensors are made or begin to be used.
std::vector<double> cuts(std::vector<double> places) {
  places.push_back(1);
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

}  // namespace

workload random_workload(std::uint64_t seed) {
  constexpr std::size_t places = 16;  // of a layer's pass at which tensors are made and used
  draws random(seed);
  workload w;
  w.name = "random-" + std::to_string(seed);
  w.machine = "gb200";
  w.source = "seed " + std::to_string(seed);
  w.layers = random.integer(4, 80);
  w.micro_batches = random.integer(1, 8);

  double bytes = 0;
  std::vector<std::vector<place_of_tensor>> layers(w.layers);
  for (auto& layer : layers) {
    layer.resize(random.integer(1, 8));
    for (place_of_tensor& t : layer) {
      t.bytes = static_cast<std::size_t>(random.log_between(64.0 * 1024, 2.0 * 1024 * 1024 * 1024)) / 256 * 256;
      bytes += static_cast<double>(t.bytes);
      t.made = static_cast<double>(random.integer(1, places)) / places;
      t.used.resize(random.integer(1, 2));
      for (double& use : t.used) use = static_cast<double>(random.integer(0, places - 1)) / places;
      std::sort(t.used.begin(), t.used.end());
      t.used.erase(std::unique(t.used.begin(), t.used.end()), t.used.end());
    }
  }

  w.link.out = random.log_between(20e9, 200e9);
  w.link.in = w.link.out * random.between(1, 3);
  w.link.both = random.between(0.5, 1) * (w.link.out + w.link.in) / 2;
  const double compute_s = bytes / w.link.out / random.between(0.1, 1.5);  // of a micro batch
  const double forward_s = compute_s / 3 / static_cast<double>(w.layers);

  for (std::size_t m = 0; m < w.micro_batches; ++m) {
    const std::size_t first_tensor = w.tensors.size();
    std::vector<std::size_t> first_of_layer;
    for (std::size_t l = 0; l < w.layers; ++l) {
      std::vector<double> ends;
      for (const place_of_tensor& t : layers[l]) ends.push_back(t.made);
      ends = cuts(std::move(ends));
      const std::size_t first = w.segments.size();
      double done = 0;
      for (const double end : ends) {
        w.segments.push_back({(end - done) * forward_s, pass::forward, l, m});
        done = end;
      }
      first_of_layer.push_back(w.tensors.size() - first_tensor);
      for (std::size_t i = 0; i < layers[l].size(); ++i) {
        const auto made = std::lower_bound(ends.begin(), ends.end(), layers[l][i].made) - ends.begin();
        w.tensors.push_back({std::string("t").append(std::to_string(i)),
                             l,
                             m,
                             layers[l][i].bytes,
                             first + static_cast<std::size_t>(made),
                             {}});
      }
    }
    for (std::size_t l = w.layers; l-- > 0;) {
      std::vector<double> ends;
      for (const place_of_tensor& t : layers[l]) {
        for (const double use : t.used) {
          if (use > 0) ends.push_back(use);
        }
      }
      ends = cuts(std::move(ends));
      const std::size_t first = w.segments.size();
      double done = 0;
      for (const double end : ends) {
        w.segments.push_back({(end - done) * 2 * forward_s, pass::backward, l, m});
        done = end;
      }
      for (std::size_t i = 0; i < layers[l].size(); ++i) {
        tensor& t = w.tensors[first_tensor + first_of_layer[l] + i];
        for (const double use : layers[l][i].used) {
          const auto segment = std::upper_bound(ends.begin(), ends.end(), use) - ends.begin();
          t.used_in.push_back(first + static_cast<std::size_t>(segment));
        }
      }
    }
  }
  check(w);
  return w;
}

}  // namespace schedules
