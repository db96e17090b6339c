// The router's choice, the order of the experts, and rows moved to it and back, each against a direct computation.
#include "permute.hpp"
#include "router.hpp"

#include "catch.hpp"

#include "common/random.hpp"

#include <hostoffload/virtual_gpu/control.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using moe::routing_shape;
constexpr cudaStream_t stream = nullptr;

template <class T>
class on_device {
public:
  explicit on_device(const std::vector<T>& values) : array_(values.size()) { array_.from_host(values, stream); }
  [[nodiscard]] T* data() const { return array_.data(); }
  [[nodiscard]] std::vector<T> host() const { return array_.to_host(stream); }

private:
  examples::device_array<T> array_;
};

std::vector<double> draw(examples::random& numbers, std::size_t n) {
  std::vector<double> values(n);
  for (double& value : values) value = numbers.normal();
  return values;
}

/// As Hugging Face's DeepseekV3TopkRouter chooses, for one row: by sorting all.
std::vector<std::int32_t> chosen(const routing_shape& s, const std::vector<double>& rated) {
  const auto best_of = [](std::vector<std::int32_t> all, std::size_t n, auto value) {
    std::stable_sort(all.begin(), all.end(), [&](std::int32_t a, std::int32_t b) { return value(a) > value(b); });
    all.resize(n);
    return all;
  };
  const auto numbered = [](std::size_t n) {
    std::vector<std::int32_t> all(n);
    std::iota(all.begin(), all.end(), 0);
    return all;
  };
  const std::size_t size = s.experts / s.groups;
  const auto groups = best_of(numbered(s.groups), s.top_groups, [&](std::int32_t g) {
    std::vector<double> of_group(rated.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(g) * size),
                                 rated.begin() + static_cast<std::ptrdiff_t>((static_cast<std::size_t>(g) + 1) * size));
    std::sort(of_group.rbegin(), of_group.rend());
    return of_group[0] + of_group[1];
  });
  return best_of(numbered(s.experts), s.top_k, [&](std::int32_t e) {
    const auto group = static_cast<std::int32_t>(static_cast<std::size_t>(e) / size);
    const bool in = std::find(groups.begin(), groups.end(), group) != groups.end();
    return in ? rated[static_cast<std::size_t>(e)] : 0.0;
  });
}

struct routed {
  std::vector<double> probabilities;
  std::vector<std::int32_t> experts, slots, kept, loads;
};

routed route(const routing_shape& s, const std::vector<double>& logits, const std::vector<double>& bias) {
  const on_device<double> scores(logits);
  const on_device<double> biases(bias);
  const on_device<double> probabilities(std::vector<double>(s.pairs()));
  const on_device<std::int32_t> experts(std::vector<std::int32_t>(s.pairs()));
  const on_device<std::int32_t> slots(std::vector<std::int32_t>(s.pairs()));
  const on_device<std::int32_t> loads(std::vector<std::int32_t>(s.experts, 100));
  moe::expert_order order(s, stream);
  moe::router<double>::choose(stream, s, scores.data(), biases.data(), probabilities.data(), experts.data());
  order.make(stream, s, experts.data(), slots.data());
  order.add_loads(stream, s.experts, loads.data());
  std::vector<std::int32_t> kept(s.experts);
  REQUIRE(cudaMemcpy(kept.data(), order.kept(), kept.size() * sizeof kept[0], cudaMemcpyDeviceToHost) == cudaSuccess);
  return {probabilities.host(), experts.host(), slots.host(), kept, loads.host()};
}

/// Against a direct computation: the experts in turn, each taking its pairs in the order of the tokens.
void check_order(const routing_shape& s, const routed& r) {
  std::int32_t next = 0;
  for (std::size_t e = 0; e < s.experts; ++e) {
    std::int32_t wanting = 0;
    std::int32_t taken = 0;
    for (std::size_t pair = 0; pair < s.pairs(); ++pair) {
      if (r.experts[pair] != static_cast<std::int32_t>(e)) continue;
      ++wanting;
      const bool fits = static_cast<std::size_t>(taken) < s.capacity;
      CHECK(r.slots[pair] == (fits ? next : -1));
      taken += fits ? 1 : 0;
      next += fits ? 1 : 0;
    }
    CHECK(r.kept[e] == taken);
    CHECK(r.loads[e] == 100 + wanting);
  }
}

class fresh_gpu {
public:
  fresh_gpu() { hostoffload::virtual_gpu::reset(hostoffload::virtual_gpu::gb200()); }
  fresh_gpu(const fresh_gpu&) = delete;
  fresh_gpu& operator=(const fresh_gpu&) = delete;
  ~fresh_gpu() {
    for (const auto& f : hostoffload::virtual_gpu::findings()) FAIL_CHECK(f.message);
    for (const auto& f : hostoffload::virtual_gpu::leaks()) FAIL_CHECK(f.message);
  }
};

}  // namespace

TEST_CASE("the router chooses as a full sort does, and its pairs lie in the order of the experts") {
  const fresh_gpu gpu;
  constexpr std::uint64_t seed = 20241227;
  examples::random numbers(seed);
  for (int i = 0; i < 60; ++i) {
    INFO("case " << i << " of seed " << seed);
    routing_shape s{};
    s.groups = 1 + numbers.next() % 4;
    s.experts = s.groups * (2 + numbers.next() % 5);
    s.top_groups = 1 + numbers.next() % s.groups;
    s.top_k = 1 + numbers.next() % (s.top_groups * s.experts / s.groups);
    s.rows = 1 + numbers.next() % 40;
    s.scale = 2.5;
    s.capacity = numbers.next() % 2 == 0 ? s.rows : 1 + numbers.next() % s.rows;
    std::vector<double> logits = draw(numbers, s.rows * s.experts);
    const std::vector<double> bias = draw(numbers, s.experts);  // below 0 too: then experts of other groups, as 0, win
    const routed r = route(s, logits, bias);
    for (std::size_t row = 0; row < s.rows; ++row) {
      std::vector<double> rated(s.experts);
      for (std::size_t e = 0; e < s.experts; ++e) {
        logits[row * s.experts + e] = 1 / (1 + std::exp(-logits[row * s.experts + e]));
        rated[e] = logits[row * s.experts + e] + bias[e];
      }
      const std::vector<std::int32_t> expected = chosen(s, rated);
      for (std::size_t k = 0; k < s.top_k; ++k) {
        CHECK(r.experts[row * s.top_k + k] == expected[k]);
        CHECK(r.probabilities[row * s.top_k + k] == logits[row * s.experts + static_cast<std::size_t>(expected[k])]);
      }
    }
    check_order(s, r);
  }
}

TEST_CASE("ties go to the lower number, in groups and within them") {
  const fresh_gpu gpu;
  const routing_shape s{3, 8, 3, 4, 2, 1, 3};
  const routed r = route(s, std::vector<double>(s.rows * s.experts), std::vector<double>(s.experts));
  CHECK(r.experts == std::vector<std::int32_t>{0, 1, 2, 0, 1, 2, 0, 1, 2});
  CHECK(r.slots == std::vector<std::int32_t>{0, 3, 6, 1, 4, 7, 2, 5, 8});
  CHECK(r.kept == std::vector<std::int32_t>{3, 3, 3, 0, 0, 0, 0, 0});
}

TEST_CASE("one expert gets all tokens and the others none, up to its capacity") {
  const fresh_gpu gpu;
  const std::size_t capacity = GENERATE(6U, 4U, 1U);
  const routing_shape s{6, 5, 1, 1, 1, 1, capacity};
  std::vector<double> bias(s.experts);
  bias[3] = 10;
  examples::random numbers(3);
  const routed r = route(s, draw(numbers, s.rows * s.experts), bias);
  CHECK(r.experts == std::vector<std::int32_t>(6, 3));
  std::vector<std::int32_t> kept(s.experts);
  kept[3] = static_cast<std::int32_t>(capacity);
  CHECK(r.kept == kept);
  check_order(s, r);
}

TEST_CASE("scores that are no numbers are still routed to different experts") {
  const fresh_gpu gpu;
  const routing_shape s{2, 6, 3, 2, 1, 1, 2};
  const routed r = route(s, std::vector<double>(s.rows * s.experts, NAN), std::vector<double>(s.experts));
  for (std::size_t row = 0; row < s.rows; ++row) {
    std::vector<std::int32_t> of_row(r.experts.begin() + static_cast<std::ptrdiff_t>(row * s.top_k),
                                     r.experts.begin() + static_cast<std::ptrdiff_t>((row + 1) * s.top_k));
    std::sort(of_row.begin(), of_row.end());
    CHECK(std::adjacent_find(of_row.begin(), of_row.end()) == of_row.end());
    CHECK(of_row.front() >= 0);
    CHECK(of_row.back() < 6);
  }
}

TEST_CASE("rows go to the order of the experts and back, with weights, as computed directly") {
  const fresh_gpu gpu;
  constexpr std::uint64_t seed = 42;
  examples::random numbers(seed);
  for (int i = 0; i < 20; ++i) {
    INFO("case " << i << " of seed " << seed);
    const std::size_t experts = 2 + numbers.next() % 6;
    const std::size_t rows = 1 + numbers.next() % 20;
    const std::size_t top_k = 1 + numbers.next() % experts;
    const routing_shape s{rows, experts, top_k, 1, 1, 2.5, i % 2 == 0 ? rows : 1 + numbers.next() % rows};
    const routed r = route(s, draw(numbers, rows * experts), std::vector<double>(experts));
    const auto kept = static_cast<std::size_t>(std::accumulate(r.kept.begin(), r.kept.end(), 0));
    constexpr std::size_t width = 5;
    constexpr std::size_t inner = 3;
    const std::vector<double> x = draw(numbers, rows * width);
    const std::vector<double> y = draw(numbers, kept * width);
    const std::vector<double> act = draw(numbers, kept * inner);
    const std::vector<double> d_act = draw(numbers, kept * inner);
    const on_device<double> dx(x);
    const on_device<double> dy(y);
    const on_device<double> d_acts(act);
    const on_device<double> p(r.probabilities);
    const on_device<std::int32_t> slots(r.slots);
    const on_device<double> gathered(std::vector<double>(kept * width));
    const on_device<double> summed(x);
    const on_device<double> combined(x);
    const on_device<double> weighed_y(y);
    const on_device<double> weighed_act(d_act);
    const on_device<double> d_weights(std::vector<double>(s.pairs()));
    using permute = moe::permute<double>;
    permute::gather(stream, s, kept, width, dx.data(), slots.data(), gathered.data());
    permute::gather_backward(stream, s, kept, width, dy.data(), slots.data(), summed.data());
    permute::combine(stream, s, kept, width, dy.data(), p.data(), slots.data(), combined.data());
    permute::weigh_backward(stream, s, kept, width, inner, p.data(), slots.data(), d_acts.data(), weighed_y.data(),
                            weighed_act.data(), d_weights.data());

    std::vector<double> expected_sum = x;
    std::vector<double> expected_combined = x;
    for (std::size_t pair = 0; pair < s.pairs(); ++pair) {
      const std::size_t row = pair / top_k;
      double total = 0;
      for (std::size_t k = 0; k < top_k; ++k) total += r.probabilities[row * top_k + k];
      const double weight = 2.5 * r.probabilities[pair] / total;
      if (r.slots[pair] < 0) {
        CHECK(d_weights.host()[pair] == 0);
        continue;
      }
      const auto slot = static_cast<std::size_t>(r.slots[pair]);
      for (std::size_t c = 0; c < width; ++c) {
        CHECK(gathered.host()[slot * width + c] == x[row * width + c]);
        expected_sum[row * width + c] += y[slot * width + c];
        expected_combined[row * width + c] += weight * y[slot * width + c];
        CHECK(weighed_y.host()[slot * width + c] == Approx(weight * y[slot * width + c]));
      }
      double along = 0;
      for (std::size_t c = 0; c < inner; ++c) {
        along += act[slot * inner + c] * d_act[slot * inner + c];
        CHECK(weighed_act.host()[slot * inner + c] == Approx(weight * d_act[slot * inner + c]));
      }
      CHECK(d_weights.host()[pair] == Approx(along));
    }
    for (std::size_t at = 0; at < x.size(); ++at) {
      CHECK(summed.host()[at] == Approx(expected_sum[at]).margin(1e-12));
      CHECK(combined.host()[at] == Approx(expected_combined[at]).margin(1e-12));
    }
  }
}

TEST_CASE("the router's gradient agrees with central differences") {
  const fresh_gpu gpu;
  const routing_shape s{4, 6, 3, 2, 2, 2.5, 4};
  constexpr std::uint64_t seed = 5;
  examples::random numbers(seed);
  const std::vector<double> logits = draw(numbers, s.rows * s.experts);
  const std::vector<double> d_weights = draw(numbers, s.pairs());
  const std::vector<double> bias(s.experts);
  const routed r = route(s, logits, bias);
  const on_device<double> p(r.probabilities);
  const on_device<std::int32_t> experts(r.experts);
  const on_device<double> d(d_weights);
  const on_device<double> d_logits(std::vector<double>(logits.size()));
  moe::router<double>::backward(stream, s, p.data(), experts.data(), d.data(), d_logits.data());
  const auto loss = [&](const std::vector<double>& moved) {
    double total = 0;
    for (std::size_t row = 0; row < s.rows; ++row) {
      double sum = 0;
      const auto score = [&](std::size_t k) {
        const auto e = static_cast<std::size_t>(r.experts[row * s.top_k + k]);
        return 1 / (1 + std::exp(-moved[row * s.experts + e]));
      };
      for (std::size_t k = 0; k < s.top_k; ++k) sum += score(k);
      for (std::size_t k = 0; k < s.top_k; ++k) total += d_weights[row * s.top_k + k] * s.scale * score(k) / sum;
    }
    return total;
  };
  for (std::size_t i = 0; i < logits.size(); ++i) {
    constexpr double h = 1e-6;
    std::vector<double> above = logits;
    std::vector<double> below = logits;
    above[i] += h;
    below[i] -= h;
    CHECK(d_logits.host()[i] == Approx((loss(above) - loss(below)) / (2 * h)).margin(1e-8));
  }
}

TEST_CASE("biases move against the load, by the same amount whatever the excess") {
  const fresh_gpu gpu;
  const on_device<std::int32_t> loads({7, 1, 4, 4, 4});  // the mean is 4
  const on_device<double> bias({0.5, 0.5, 0.5, -0.5, 0});
  moe::router<double>::balance(stream, 5, loads.data(), 0.25, bias.data());
  CHECK(bias.host() == std::vector<double>{0.25, 0.75, 0.5, -0.5, 0});
}
