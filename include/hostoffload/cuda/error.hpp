#pragma once
// CUDA's errors as exceptions. Tiers: check() throws; ignore() is for destructors, where an error has nowhere to go.

#include <hostoffload/errors.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace hostoffload::inline v0 {

/// A CUDA call failed. Errors that are not sticky leave the device usable; CUDA's own last error is cleared.
class cuda_error : public error {
public:
  cuda_error(const std::string& message, cudaError_t code, std::string_view call)
      : error(message), code_(code), call_(call) {}
  [[nodiscard]] cudaError_t code() const noexcept { return code_; }
  [[nodiscard]] const std::string& call() const noexcept { return call_; }

private:
  cudaError_t code_;
  std::string call_;
};

/// requested() bytes of device or pinned host memory could not be had.
class out_of_memory : public cuda_error {
public:
  out_of_memory(const std::string& message, cudaError_t code, std::string_view call, std::size_t requested)
      : cuda_error(message, code, call), requested_(requested) {}
  [[nodiscard]] std::size_t requested() const noexcept { return requested_; }

private:
  std::size_t requested_;
};

namespace detail {

/// What a failed call was for: tensor as "gate[3]", stream as "compute"; empty where it has none.
struct purpose {
  std::string_view tensor{};
  std::size_t layer = 0;
  std::string_view stream{};
};

[[nodiscard]] inline std::string describe(std::string_view call, cudaError_t code, const purpose& what) {
  std::string text(call);
  if (!what.tensor.empty()) text += " for tensor " + std::string(what.tensor) + "[" + std::to_string(what.layer) + "]";
  if (!what.stream.empty()) text += " on stream " + std::string(what.stream);
  return text + ": " + cudaGetErrorName(code) + " (" + cudaGetErrorString(code) + ")";
}

[[noreturn]] inline void fail(cudaError_t code, std::string_view call, const purpose& what) {
  const std::string message = describe(call, code, what);
  static_cast<void>(cudaGetLastError());
  throw cuda_error(message, code, call);
}

inline void check(cudaError_t code, std::string_view call, const purpose& what = {}) {
  if (code != cudaSuccess) fail(code, call, what);
}

/// For allocations: states the bytes.
inline void check_allocation(cudaError_t code, std::string_view call, std::size_t bytes, const purpose& what = {}) {
  if (code == cudaSuccess) return;
  if (code != cudaErrorMemoryAllocation) fail(code, call, what);
  const std::string message = describe(call, code, what) + ": " + std::to_string(bytes) + " bytes were requested";
  static_cast<void>(cudaGetLastError());
  throw out_of_memory(message, code, call, bytes);
}

inline void ignore(cudaError_t code) noexcept {
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace detail

/// Throws cuda_error with the name of the call unless `code` is cudaSuccess. For a trainer's own calls too.
inline void check(cudaError_t code, std::string_view call) { detail::check(code, call); }

}  // namespace hostoffload::inline v0
