#pragma once
// Copies and memsets of whatever shape, for all functions of the API that ask for one.

#include <cstddef>

#include <hostoffload/virtual_gpu/detail/call.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

[[nodiscard]] cudaError_t copy(const context& c, const copy_request& r, stream* s);
/// What copy() would return, and nothing happens.
[[nodiscard]] cudaError_t check_copy(const context& c, const copy_request& r);

[[nodiscard]] cudaError_t set(const context& c, const set_request& r, stream* s);

}  // namespace hostoffload::inline v0::virtual_gpu::detail
