#pragma once
// Neighbouring copies of one direction, gathered so that one call enqueues them.

#include <hostoffload/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <span>

namespace hostoffload::inline v0::detail {

struct slot;
struct tensor_record;

/// Nothing orders the copies of a batch among themselves: none may write what another reads or writes. Allocates
/// nothing.
class copy_batch {
public:
  static constexpr std::size_t capacity = 32;
  struct member {
    tensor_record* tensor = nullptr;
    slot* device = nullptr;
  };

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] bool full() const noexcept { return count_ == capacity; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::span<const member> members() const noexcept { return {members_.data(), count_}; }

  /// There is room, and `bytes` is not 0.
  void add(void* to, const void* from, std::size_t bytes, const member& m) noexcept {
    to_[count_] = to;
    from_[count_] = from;
    sizes_[count_] = bytes;
    members_[count_++] = m;
    bytes_ += bytes;
  }
  void clear() noexcept { count_ = bytes_ = 0; }

  /// One call from CUDA 13 on; before, one per copy. `on` is neither the legacy default stream nor being captured: a
  /// capture loses batches. Does not synchronize.
  void enqueue(cudaStream_t on, cudaMemcpyKind kind, const purpose& what) {
#if CUDART_VERSION >= 13000
    static_cast<void>(kind);
    cudaMemcpyAttributes in_stream_order{};
    in_stream_order.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
    check(cudaMemcpyBatchAsync(to_.data(), from_.data(), sizes_.data(), count_, &in_stream_order, &first, 1, on),
          "cudaMemcpyBatchAsync", what);
#else
    for (std::size_t i = 0; i < count_; ++i)
      check(cudaMemcpyAsync(to_[i], from_[i], sizes_[i], kind, on), "cudaMemcpyAsync", what);
#endif
  }

private:
  std::array<void*, capacity> to_{};
  std::array<const void*, capacity> from_{};
  std::array<std::size_t, capacity> sizes_{};
  std::array<member, capacity> members_{};
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace hostoffload::inline v0::detail
