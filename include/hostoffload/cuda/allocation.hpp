#pragma once
// Owned device memory and owned pinned host memory.

#include <hostoffload/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hostoffload::inline v0 {

/// Bytes that somebody owns: a caller's region, or a view of an allocation.
struct memory_region {
  void* begin = nullptr;
  std::size_t bytes = 0;
};

namespace detail {

struct device_memory {
  static constexpr std::string_view call = "cudaMalloc";
  static cudaError_t allocate(void** begin, std::size_t bytes) { return cudaMalloc(begin, bytes); }
  static cudaError_t free(void* begin) noexcept { return cudaFree(begin); }
};

/// Visible to every device of the process, so that one pinned slab serves schedulers on several.
struct pinned_memory {
  static constexpr std::string_view call = "cudaHostAlloc";
  static cudaError_t allocate(void** begin, std::size_t bytes) {
    return cudaHostAlloc(begin, bytes, cudaHostAllocPortable);
  }
  static cudaError_t free(void* begin) noexcept { return cudaFreeHost(begin); }
};

/// Moved-from: empty, only to be assigned or destroyed.
template <class Kind>
class allocation {
public:
  /// Throws out_of_memory with the byte count; `what` says for which tensor.
  explicit allocation(std::size_t bytes, const purpose& what = {}) {
    void* begin = nullptr;
    check_allocation(Kind::allocate(&begin, bytes), Kind::call, bytes, what);
    region_ = {begin, bytes};
  }
  allocation(allocation&& other) noexcept : region_(std::exchange(other.region_, {})) {}
  allocation& operator=(allocation&& other) noexcept {
    allocation(std::move(other)).swap(*this);
    return *this;
  }
  /// May wait for the device: CUDA frees neither kind of memory while work on it is in flight.
  ~allocation() {
    if (region_.begin != nullptr) ignore(Kind::free(region_.begin));
  }

  void swap(allocation& other) noexcept { std::swap(region_, other.region_); }
  [[nodiscard]] memory_region region() const noexcept { return region_; }

private:
  memory_region region_;
};

}  // namespace detail

using device_allocation = detail::allocation<detail::device_memory>;
using pinned_allocation = detail::allocation<detail::pinned_memory>;

namespace detail {

/// Throws out_of_memory that names the window.
[[nodiscard]] inline device_allocation allocate_window(std::size_t bytes) try {
  return device_allocation(bytes);
} catch (const out_of_memory& e) {
  throw out_of_memory(std::string(e.what()) + " for the window: give scheduler_options a smaller one", e.code(),
                      e.call(), e.requested());
}

}  // namespace detail

static_assert(std::is_nothrow_move_constructible_v<device_allocation> &&
              !std::is_copy_constructible_v<device_allocation>);

}  // namespace hostoffload::inline v0
