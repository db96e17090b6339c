#include "sort_pairs.hpp"

#include "common/element.hpp"

#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <bit>

namespace moe {

namespace ho = hostoffload;

namespace {

/// The bits that expert numbers have.
int key_bits(std::size_t experts) { return std::max(1, static_cast<int>(std::bit_width(experts - 1))); }

std::size_t workspace_bytes(std::size_t pairs, std::size_t experts) {
  std::size_t bytes = 0;
  const std::int32_t* const none = nullptr;
  ho::check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, none, static_cast<std::int32_t*>(nullptr), none,
                                            static_cast<std::int32_t*>(nullptr), static_cast<int>(pairs), 0,
                                            key_bits(experts)),
            "cub::DeviceRadixSort::SortPairs");
  return bytes;
}

void number_pairs(cudaStream_t stream, std::int32_t* numbers, std::size_t n) {
  ho::launch(
      stream, n, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { numbers[i] = static_cast<std::int32_t>(i); },
      ho::work{.name = "number_pairs", .writes = {examples::range(numbers, n)}});
}

}  // namespace

pair_sorter::pair_sorter(std::size_t most, std::size_t number, cudaStream_t stream)
    : numbers_(most), order_(most), sorted_(most), workspace_(workspace_bytes(most, number)) {
  number_pairs(stream, numbers_.data(), most);
}

void pair_sorter::sort(cudaStream_t stream, const std::int32_t* experts, std::size_t pairs, std::size_t number) {
  std::size_t bytes = workspace_.bytes();
  ho::check(cub::DeviceRadixSort::SortPairs(workspace_.data(), bytes, experts, sorted_.data(), numbers_.data(),
                                            order_.data(), static_cast<int>(pairs), 0, key_bits(number), stream),
            "cub::DeviceRadixSort::SortPairs");
}

}  // namespace moe
