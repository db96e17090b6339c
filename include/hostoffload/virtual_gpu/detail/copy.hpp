#pragma once
// Copies and memsets of whatever shape, for all functions of the API that ask for one.

#include <cstddef>

#include <hostoffload/virtual_gpu/detail/call.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

/// `rows` rows of `width` bytes, whose beginnings lie `to_pitch` and `from_pitch` bytes apart.
struct copy_request {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t width = 0, rows = 1;
  std::size_t to_pitch = 0, from_pitch = 0;
  cudaMemcpyKind kind = cudaMemcpyDefault;
  bool synchronous = false;  // of the functions without Async
  bool at_once = false;      // what lies in host memory is read before the call returns
  bool batched = false;      // not the first copy of a batch
};
[[nodiscard]] cudaError_t copy(const context& c, const copy_request& r, stream* s);
/// What copy() would return, and nothing happens.
[[nodiscard]] cudaError_t check_copy(const context& c, const copy_request& r);

struct set_request {
  void* to = nullptr;
  int value = 0;
  std::size_t width = 0, rows = 1, pitch = 0;
  bool synchronous = false;
};
[[nodiscard]] cudaError_t set(const context& c, const set_request& r, stream* s);

}  // namespace hostoffload::inline v0::virtual_gpu::detail
