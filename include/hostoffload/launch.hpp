#pragma once
// One way to launch a kernel on either device. Optional: the rest of the library launches none.
//
//   ho::launch(stream, n, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { y[i] += a * x[i]; },
//              {.name = "axpy", .reads = {{x, n * sizeof *x}, {y, n * sizeof *y}}, .writes = {{y, n * sizeof *y}},
//              .flops = 2.0 * n});
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
#include <cub/device/device_for.cuh>
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
  double bytes = 0;  // moved to and from device memory; 0: all that is read and written, once
  precision rate = precision::fp32;
};

#if defined(__CUDACC__)

/// Calls function(i) for i = 0 … n − 1 on `stream`, in any order, side by side. `function` is trivially copyable and
/// callable on the device. Does not synchronize. Throws cuda_error.
template <class Function>
void launch(cudaStream_t stream, std::size_t n, Function function, const work& what) {
  if (n == 0) return;
  detail::check(cub::DeviceFor::Bulk(n, function, stream), what.name);
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

static_assert(static_cast<int>(precision::fp64) == hostoffload_fp64 &&
              static_cast<int>(precision::fp4) == hostoffload_fp4);

#endif

}  // namespace hostoffload::inline v0
