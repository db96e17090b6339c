#pragma once
// Collectives of one rank among many, on either device: NCCL on GPUs, on the virtual GPU a rank whose peers are not
// there.

#include <cuda_runtime_api.h>

#include <cstddef>

namespace collectives {

/// What sums are formed in and arrays consist of.
enum class element { bf16, fp32 };
[[nodiscard]] constexpr std::size_t bytes_of(element e) { return e == element::bf16 ? 2 : 4; }

/// The ranks of one group. Every call enqueues on `stream`, returns at once, and throws ho::cuda_error; buffers are
/// device memory. All ranks make the same calls in the same order.
class communicator {
public:
  communicator() = default;
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;
  virtual ~communicator() = default;

  [[nodiscard]] virtual std::size_t ranks() const = 0;

  /// receive[r] = what rank r sends, `bytes` from each: `receive` has ranks() * bytes.
  virtual void all_gather(cudaStream_t stream, const void* send, void* receive, std::size_t bytes) = 0;

  /// receive = the sum over ranks of their send[this rank]: `receive` has `elements`, `send` ranks() * elements.
  virtual void reduce_scatter(cudaStream_t stream, const void* send, void* receive, std::size_t elements,
                              element type) = 0;

  /// values = the sum of the values of all ranks.
  virtual void all_reduce(cudaStream_t stream, void* values, std::size_t elements, element type) = 0;

  /// receive[r] = what rank r has in send[this rank]; both have ranks() * bytes.
  virtual void all_to_all(cudaStream_t stream, const void* send, void* receive, std::size_t bytes) = 0;
};

}  // namespace collectives
