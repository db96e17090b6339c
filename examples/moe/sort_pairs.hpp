#pragma once
// Pairs of token and expert sorted by expert: CUB's radix sort on a GPU (sort_pairs_cuda.cu), the standard library's
// in a kernel of the virtual GPU (sort_pairs_virtual.cpp).

#include "common/device_array.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace moe {

/// Workspace for one sort at a time, in stream order.
class pair_sorter {
public:
  /// For up to `most` pairs and `number` experts.
  pair_sorter(std::size_t most, std::size_t number, cudaStream_t stream);

  /// Of `pairs` experts below `number`. Stable: pairs of one expert keep their order. Enqueues on `stream`.
  void sort(cudaStream_t stream, const std::int32_t* experts, std::size_t pairs, std::size_t number);

  /// After sort: the pair at each place, and its expert.
  [[nodiscard]] const std::int32_t* order() const { return order_.data(); }
  [[nodiscard]] const std::int32_t* sorted() const { return sorted_.data(); }

private:
  examples::device_array<std::int32_t> numbers_, order_, sorted_;
  examples::device_array<std::byte> workspace_;
};

}  // namespace moe
