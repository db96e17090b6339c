#include "router.hpp"

#include <cmath>

namespace moe {

namespace ho = hostoffload;
using examples::range;

namespace {

/// The two largest of score + bias in one group.
template <class C>
HOSTOFFLOAD_DEVICE C group_rating(const C* scores, const C* bias, std::size_t first, std::size_t size) {
  C best = -INFINITY;
  C second = -INFINITY;
  for (std::size_t e = first; e < first + size; ++e) {
    const C value = scores[e] + bias[e];
    if (value > best) {
      second = best;
      best = value;
    } else if (value > second) {
      second = value;
    }
  }
  return best + second;
}

HOSTOFFLOAD_DEVICE bool is_in(std::uint64_t set, std::size_t i) { return (set >> i & 1U) != 0; }

/// The first of the largest among those not taken yet: some valid one, whatever the values are.
template <class Taken, class Value>
HOSTOFFLOAD_DEVICE std::size_t best_left(std::size_t n, const Taken& taken, const Value& value) {
  std::size_t best = n;
  for (std::size_t i = 0; i < n; ++i) {
    if (!taken(i) && (best == n || value(i) > value(best))) best = i;
  }
  return best;
}

}  // namespace

template <class T>
void router<T>::choose(cudaStream_t stream, const routing_shape& s, C* logits, const C* bias, C* probabilities,
                       std::int32_t* experts) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t row) {
    C* const scores = logits + row * s.experts;
    for (std::size_t e = 0; e < s.experts; ++e) scores[e] = C(1) / (C(1) + std::exp(-scores[e]));

    const std::size_t group_size = s.experts / s.groups;
    std::uint64_t groups = 0;
    for (std::size_t i = 0; i < s.top_groups; ++i) {
      const std::size_t group = best_left(
          s.groups, [&](std::size_t g) { return is_in(groups, g); },
          [&](std::size_t g) { return group_rating(scores, bias, g * group_size, group_size); });
      groups |= std::uint64_t{1} << group;
    }
    std::int32_t* const chosen = experts + row * s.top_k;
    for (std::size_t i = 0; i < s.top_k; ++i) {
      const auto taken = [&](std::size_t e) {
        bool found = false;
        for (std::size_t j = 0; j < i; ++j) found = found || chosen[j] == static_cast<std::int32_t>(e);
        return found;
      };
      const std::size_t best = best_left(
          s.experts, taken, [&](std::size_t e) { return is_in(groups, e / group_size) ? scores[e] + bias[e] : C(0); });
      chosen[i] = static_cast<std::int32_t>(best);
      probabilities[row * s.top_k + i] = scores[best];
    }
  };
  const std::size_t scores = s.rows * s.experts;
  ho::launch(stream, s.rows, kernel,
             ho::work{.name = "route",
                      .reads = {range(logits, scores), range(bias, s.experts)},
                      .writes = {range(logits, scores), range(probabilities, s.pairs()), range(experts, s.pairs())}});
}

template <class T>
void router<T>::backward(cudaStream_t stream, const routing_shape& s, const C* probabilities,
                         const std::int32_t* experts, const C* d_weights, T* d_logits) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t row) {
    const C* const p = probabilities + row * s.top_k;
    const C* const d = d_weights + row * s.top_k;
    C sum = static_cast<C>(1e-20);
    C along = 0;
    for (std::size_t i = 0; i < s.top_k; ++i) {
      sum += p[i];
      along += d[i] * p[i];
    }
    for (std::size_t e = 0; e < s.experts; ++e) d_logits[row * s.experts + e] = static_cast<T>(C(0));
    const C scale = static_cast<C>(s.scale) / sum;
    for (std::size_t i = 0; i < s.top_k; ++i) {
      const auto expert = static_cast<std::size_t>(experts[row * s.top_k + i]);
      d_logits[row * s.experts + expert] = static_cast<T>(scale * (d[i] - along / sum) * p[i] * (C(1) - p[i]));
    }
  };
  ho::launch(
      stream, s.rows, kernel,
      ho::work{.name = "route_backward",
               .reads = {range(probabilities, s.pairs()), range(experts, s.pairs()), range(d_weights, s.pairs())},
               .writes = {range(d_logits, s.rows * s.experts)}});
}

template <class T>
void router<T>::balance(cudaStream_t stream, std::size_t experts, const std::int32_t* loads, double rate, C* bias) {
  const C step = static_cast<C>(rate);
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t e) {
    std::int64_t total = 0;
    for (std::size_t other = 0; other < experts; ++other) total += loads[other];
    const std::int64_t excess = static_cast<std::int64_t>(loads[e]) * static_cast<std::int64_t>(experts) - total;
    if (excess != 0) bias[e] += excess > 0 ? -step : step;
  };
  ho::launch(
      stream, experts, kernel,
      ho::work{
          .name = "balance", .reads = {range(loads, experts), range(bias, experts)}, .writes = {range(bias, experts)}});
}

template struct router<float>;
template struct router<double>;
template struct router<examples::bf16>;

expert_order::expert_order(const routing_shape& largest, cudaStream_t stream)
    : begins_(largest.experts),
      firsts_(largest.experts),
      chosen_(largest.experts),
      kept_(largest.experts),
      sorter_(largest.pairs(), largest.experts, stream) {}

void expert_order::make(cudaStream_t stream, const routing_shape& s, const std::int32_t* experts, std::int32_t* slots) {
  const auto pairs = static_cast<std::int32_t>(s.pairs());
  sorter_.sort(stream, experts, s.pairs(), s.experts);
  const std::int32_t* const order = sorter_.order();
  const std::int32_t* const sorted = sorter_.sorted();
  std::int32_t* const begins = begins_.data();
  std::int32_t* const firsts = firsts_.data();
  std::int32_t* const chosen = chosen_.data();
  std::int32_t* const kept = kept_.data();

  const auto find_begin = [=] HOSTOFFLOAD_DEVICE(std::size_t e) {
    std::int32_t low = 0;
    for (std::int32_t high = pairs; low < high;) {  // the first place that belongs to no lower expert
      const std::int32_t middle = low + (high - low) / 2;
      if (sorted[middle] < static_cast<std::int32_t>(e)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    begins[e] = low;
  };
  const auto count = [=] HOSTOFFLOAD_DEVICE(std::size_t) {
    std::int32_t first = 0;
    for (std::size_t e = 0; e < s.experts; ++e) {
      const std::int32_t end = e + 1 < s.experts ? begins[e + 1] : pairs;
      chosen[e] = end - begins[e];
      kept[e] = static_cast<std::size_t>(chosen[e]) < s.capacity ? chosen[e] : static_cast<std::int32_t>(s.capacity);
      firsts[e] = first;
      first += kept[e];
    }
  };
  const auto give_slots = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    const auto e = static_cast<std::size_t>(sorted[i]);
    const std::int32_t rank = static_cast<std::int32_t>(i) - begins[e];
    slots[order[i]] = rank < kept[e] ? firsts[e] + rank : -1;
  };
  ho::launch(stream, s.experts, find_begin,
             ho::work{.name = "expert_begins",
                      .reads = {range(sorted, s.pairs())},
                      .writes = {range(begins, s.experts)},
                      .bytes = static_cast<double>(s.experts * 32 * sizeof(std::int32_t))});  // a binary search each
  ho::launch(stream, 1, count,
             ho::work{.name = "expert_counts",
                      .reads = {range(begins, s.experts)},
                      .writes = {range(chosen, s.experts), range(kept, s.experts), range(firsts, s.experts)}});
  ho::launch(stream, s.pairs(), give_slots,
             ho::work{.name = "expert_slots",
                      .reads = {range(order, s.pairs()), range(sorted, s.pairs()), range(begins, s.experts),
                                range(kept, s.experts), range(firsts, s.experts)},
                      .writes = {range(slots, s.pairs())}});
}

void expert_order::add_loads(cudaStream_t stream, std::size_t experts, std::int32_t* loads) const {
  const std::int32_t* const chosen = chosen_.data();
  ho::launch(
      stream, experts, [=] HOSTOFFLOAD_DEVICE(std::size_t e) { loads[e] += chosen[e]; },
      ho::work{.name = "add_loads",
               .reads = {range(chosen, experts), range(loads, experts)},
               .writes = {range(loads, experts)}});
}

}  // namespace moe
