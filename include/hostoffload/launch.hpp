#pragma once
// One way to launch a kernel on either device. Optional: the rest of the library launches none.
//
//   ho::launch(stream, n, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { y[i] += a * x[i]; },
//              {.name = "axpy", .reads = {{x, n * sizeof *x}, {y, n * sizeof *y}}, .writes = {{y, n * sizeof *y}},
//              .flops = 2.0 * n});
//
// and one for what a block of threads does together, such as the sum of a row:
//
//   ho::launch_rows(stream, rows, [=] HOSTOFFLOAD_DEVICE(std::size_t row, ho::row_block block) {
//     float part = 0;
//     for (std::size_t c = block.thread(); c < width; c += block.threads()) part += x[row * width + c];
//     const float total = block.sum(part);
//     if (block.thread() == 0) sums[row] = total;
//   }, {.name = "row_sums", …});
//
// Compiled by nvcc, CUB runs the function object on the GPU. Compiled by a host compiler, the virtual GPU runs it on
// the host, takes its time from `flops` and `bytes`, and checks accesses by what `reads` and `writes` declare; a GPU
// needs none of these.

#include <hostoffload/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#if defined(__CUDACC__)
#include <cub/block/block_reduce.cuh>
#include <cub/device/device_for.cuh>

#include <cuda/functional>
#include <cuda/std/functional>
#define HOSTOFFLOAD_DEVICE __host__ __device__
#else
#include <hostoffload/virtual_gpu/kernel.h>

#include <algorithm>
#include <array>
#include <new>
#define HOSTOFFLOAD_DEVICE
#endif

namespace hostoffload::inline v0 {

/// The arithmetic that bounds a kernel; fp32 is the vector rate, the others are rates of the matrix units.
enum class precision : std::uint8_t { fp64, fp32, tf32, bf16, fp8, fp4 };

struct byte_range {
  const void* begin = nullptr;
  std::size_t bytes = 0;
};

/// What a kernel does, for the virtual GPU. Bytes that are read, changed and written stand in both lists.
struct work {
  const char* name = "kernel";
  std::initializer_list<byte_range> reads{};
  std::initializer_list<byte_range> writes{};
  double flops = 0;
  double bytes = 0;    // moved to and from device memory; 0: all that is read and written, once
  double seconds = 0;  // at least: what it waits for outside the device, as a network
  precision rate = precision::fp32;
};

#if defined(__CUDACC__)

namespace detail {

inline constexpr int row_threads = 256;

/// All threads of the block get the result.
template <class T, class Operation>
__device__ T reduce_row(T x, Operation operation) {
  using block = cub::BlockReduce<T, row_threads>;
  __shared__ typename block::TempStorage storage;
  __shared__ T result;
  __syncthreads();  // the last result has been read
  const T total = block(storage).Reduce(x, operation);
  if (threadIdx.x == 0) result = total;
  __syncthreads();
  return result;
}

}  // namespace detail

#endif

/// The threads that work on one row together: a block of them on a GPU, one on the virtual GPU. sum, max and sync are
/// for all of them: each thread calls them as often as any other. sum adds in one fixed order, so the same input gives
/// the same bits on the same device. What one thread wrote to memory, others may read after sync.
class row_block {
public:
#if defined(__CUDA_ARCH__)
  [[nodiscard]] __host__ __device__ std::size_t thread() const { return threadIdx.x; }
  [[nodiscard]] __host__ __device__ std::size_t threads() const { return detail::row_threads; }
  template <class T>
  [[nodiscard]] __host__ __device__ T sum(T x) const {
    return detail::reduce_row(x, cuda::std::plus<>{});
  }
  template <class T>
  [[nodiscard]] __host__ __device__ T max(T x) const {
    return detail::reduce_row(x, cuda::maximum<>{});
  }
  __host__ __device__ void sync() const { __syncthreads(); }
#else
  [[nodiscard]] HOSTOFFLOAD_DEVICE std::size_t thread() const { return 0; }
  [[nodiscard]] HOSTOFFLOAD_DEVICE std::size_t threads() const { return 1; }
  template <class T>
  [[nodiscard]] HOSTOFFLOAD_DEVICE T sum(T x) const {
    return x;
  }
  template <class T>
  [[nodiscard]] HOSTOFFLOAD_DEVICE T max(T x) const {
    return x;
  }
  HOSTOFFLOAD_DEVICE void sync() const {}
#endif
};

#if defined(__CUDACC__)

namespace detail {

template <class Function>
__global__ void __launch_bounds__(row_threads) row_kernel(Function function) {
  function(std::size_t{blockIdx.x}, row_block{});
}

}  // namespace detail

/// Calls function(i) for i = 0 … n − 1 on `stream`, in any order, side by side. `function` is trivially copyable and
/// callable on the device. Does not synchronize. Throws cuda_error.
template <class Function>
void launch(cudaStream_t stream, std::size_t n, Function function, const work& what) {
  if (n == 0) return;
  detail::check(cub::DeviceFor::Bulk(n, function, stream), what.name);
}

/// Calls function(row, block) for row = 0 … rows − 1 (fewer than 2^31) on `stream`, in any order, each with all the
/// threads of a block. `function` is as for launch. Does not synchronize. Throws cuda_error.
template <class Function>
void launch_rows(cudaStream_t stream, std::size_t rows, Function function, const work& what) {
  if (rows == 0) return;
  void* arguments[] = {&function};
  detail::check(cudaLaunchKernel(reinterpret_cast<const void*>(&detail::row_kernel<Function>),
                                 dim3(static_cast<unsigned>(rows)), dim3(detail::row_threads), arguments, 0, stream),
                what.name);
}

#else

namespace detail {

template <class Function>
struct bulk {
  std::size_t n;
  Function function;

  static void copy(void* to, const void* from) { ::new (to) bulk(*static_cast<const bulk*>(from)); }
  static void run(void* self) {
    bulk& b = *static_cast<bulk*>(self);
    for (std::size_t i = 0; i < b.n; ++i) b.function(i);
  }
  static void destroy(void* self) { static_cast<bulk*>(self)->~bulk(); }
};

/// Enough for a kernel over all the tensors of a layer.
inline constexpr std::size_t most_ranges = 32;

inline std::size_t copy_ranges(std::initializer_list<byte_range> from, std::array<hostoffload_range, most_ranges>& to,
                               const work& what) {
  if (from.size() > to.size()) {
    throw usage_error("kernel " + std::string(what.name) + " declares more than " + std::to_string(most_ranges) +
                      " byte ranges");
  }
  std::transform(from.begin(), from.end(), to.begin(), [](const byte_range& r) {
    return hostoffload_range{r.begin, r.bytes};
  });
  return from.size();
}

}  // namespace detail

/// Calls function(i) for i = 0 … n − 1, in this order, when `stream` comes to it in virtual time. Does not synchronize.
/// Throws cuda_error.
template <class Function>
void launch(cudaStream_t stream, std::size_t n, Function function, const work& what) {
  static_assert(std::is_invocable_v<Function&, std::size_t>,
                "hostoffload: launch takes a function of the index, std::size_t");
  using bulk = detail::bulk<Function>;
  if (n == 0) return;
  std::array<hostoffload_range, detail::most_ranges> reads;
  std::array<hostoffload_range, detail::most_ranges> writes;
  const bulk closure{n, function};
  hostoffload_kernel kernel{};
  kernel.name = what.name;
  kernel.reads = reads.data();
  kernel.read_count = detail::copy_ranges(what.reads, reads, what);
  kernel.writes = writes.data();
  kernel.write_count = detail::copy_ranges(what.writes, writes, what);
  kernel.flops = what.flops;
  kernel.bytes = what.bytes;
  kernel.seconds = what.seconds;
  if (what.bytes == 0) {
    for (const byte_range& r : what.reads) kernel.bytes += static_cast<double>(r.bytes);
    for (const byte_range& r : what.writes) kernel.bytes += static_cast<double>(r.bytes);
  }
  kernel.precision = static_cast<hostoffload_precision>(what.rate);
  kernel.closure_bytes = sizeof(bulk);
  kernel.closure_align = alignof(bulk);
  kernel.closure = &closure;
  kernel.copy = &bulk::copy;
  kernel.run = &bulk::run;
  kernel.destroy = &bulk::destroy;
  detail::check(hostoffload_launch(stream, &kernel), "hostoffload_launch", {what.name, 0, {}});
}

/// Calls function(row, block) for row = 0 … rows − 1, in this order, as launch does; the block is one thread.
template <class Function>
void launch_rows(cudaStream_t stream, std::size_t rows, Function function, const work& what) {
  static_assert(std::is_invocable_v<Function&, std::size_t, row_block>,
                "hostoffload: launch_rows takes a function of the row, std::size_t, and a row_block");
  const auto of_row = [function](std::size_t row) mutable { function(row, row_block{}); };
  launch(stream, rows, of_row, what);
}

static_assert(static_cast<int>(precision::fp64) == hostoffload_fp64 &&
              static_cast<int>(precision::fp4) == hostoffload_fp4);

#endif

}  // namespace hostoffload::inline v0
