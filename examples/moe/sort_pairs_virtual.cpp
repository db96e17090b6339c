#include "sort_pairs.hpp"

#include "common/element.hpp"

#include <algorithm>
#include <numeric>

namespace moe {

pair_sorter::pair_sorter(std::size_t most, std::size_t, cudaStream_t)
    : numbers_(0), order_(most), sorted_(most), workspace_(0) {}

void pair_sorter::sort(cudaStream_t stream, const std::int32_t* experts, std::size_t pairs, std::size_t) {
  const auto kernel = [=, order = order_.data(), sorted = sorted_.data()](std::size_t) {
    std::iota(order, order + pairs, 0);
    std::sort(order, order + pairs, [&](std::int32_t a, std::int32_t b) {
      return experts[a] != experts[b] ? experts[a] < experts[b] : a < b;
    });
    std::transform(order, order + pairs, sorted, [&](std::int32_t pair) { return experts[pair]; });
  };
  examples::ho::launch(
      stream, 1, kernel,
      examples::ho::work{.name = "sort_pairs",
                         .reads = {examples::range(experts, pairs)},
                         .writes = {examples::range(order_.data(), pairs), examples::range(sorted_.data(), pairs)}});
}

}  // namespace moe
