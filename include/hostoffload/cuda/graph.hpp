#pragma once
// Owners of CUDA graphs.

#include <hostoffload/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <type_traits>
#include <utility>

namespace hostoffload::inline v0 {

/// Owns an executable graph. Moved-from: empty, only to be assigned or destroyed.
class executable_graph {
public:
  /// Ends the capture that began on `captured`; the streams leave capture mode also where this throws. What was
  /// captured uses the memory that it was given: that outlives the last launch. Throws cuda_error.
  [[nodiscard]] static executable_graph end_capture(cudaStream_t captured, const detail::purpose& what = {}) {
    cudaGraph_t graph = nullptr;
    detail::check(cudaStreamEndCapture(captured, &graph), "cudaStreamEndCapture", what);
    executable_graph made;
    const cudaError_t code = cudaGraphInstantiate(&made.handle_, graph, 0);
    detail::ignore(cudaGraphDestroy(graph));
    detail::check(code, "cudaGraphInstantiate", what);
    return made;
  }
  executable_graph(executable_graph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  executable_graph& operator=(executable_graph&& other) noexcept {
    executable_graph(std::move(other)).swap(*this);
    return *this;
  }
  /// What was launched still runs.
  ~executable_graph() {
    if (handle_ != nullptr) detail::ignore(cudaGraphExecDestroy(handle_));
  }

  void swap(executable_graph& other) noexcept { std::swap(handle_, other.handle_); }

  /// Behind all that `on` was given, and behind the last launch. Does not synchronize. Throws cuda_error.
  void launch(cudaStream_t on, const detail::purpose& what = {}) const {
    detail::check(cudaGraphLaunch(handle_, on), "cudaGraphLaunch", what);
  }

private:
  executable_graph() noexcept = default;

  cudaGraphExec_t handle_ = nullptr;
};

static_assert(std::is_nothrow_move_constructible_v<executable_graph> &&
              !std::is_copy_constructible_v<executable_graph>);
static_assert(sizeof(executable_graph) == sizeof(cudaGraphExec_t));

}  // namespace hostoffload::inline v0
