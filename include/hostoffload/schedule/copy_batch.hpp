#pragma once
// Neighbouring copies of one direction, gathered so that one call enqueues them.

#include <hostoffload/cuda/call_tape.hpp>
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

  /// Does not synchronize.
  void enqueue(call_tape& calls, cudaStream_t on, cudaMemcpyKind way, const purpose& what) const {
    calls.copy_batch(to_.data(), from_.data(), sizes_.data(), count_, way, on, what);
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
