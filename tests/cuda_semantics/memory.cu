// Allocation, stream-ordered allocation, error state. Quotations: CUDA Runtime API reference.

#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "support.hpp"

using namespace semantics;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// A pool that may reuse memory freed in another stream in one way only, or in none.
class pool {
public:
  explicit pool(std::optional<cudaMemPoolAttr> way, std::size_t most = 0) {
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.maxSize = most;
    ok(cudaMemPoolCreate(&pool_, &props));
    for (auto attribute : {cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowOpportunistic,
                           cudaMemPoolReuseAllowInternalDependencies}) {
      int on = attribute == way ? 1 : 0;
      ok(cudaMemPoolSetAttribute(pool_, attribute, &on));
    }
    std::uint64_t keep = UINT64_MAX;
    ok(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
  }
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  ~pool() { static_cast<void>(cudaMemPoolDestroy(pool_)); }
  operator cudaMemPool_t() const { return pool_; }  // NOLINT(google-explicit-constructor): as CUDA takes it

  [[nodiscard]] int* take(std::size_t bytes, cudaStream_t s) const {
    void* p = nullptr;
    ok(cudaMallocFromPoolAsync(&p, bytes, pool_, s));
    return static_cast<int*>(p);
  }
  [[nodiscard]] std::uint64_t number(cudaMemPoolAttr which) const {
    std::uint64_t n = 0;
    ok(cudaMemPoolGetAttribute(pool_, which, &n));
    return n;
  }

private:
  cudaMemPool_t pool_ = nullptr;
};

}  // namespace

// cudaMalloc: "returns cudaErrorMemoryAllocation in case of failure."
TEST_CASE("an allocation that does not fit fails at the call, and nothing else does") {
  std::size_t free = 0;
  std::size_t total = 0;
  ok(cudaMemGetInfo(&free, &total));
  CHECK(free <= total);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, total + mib) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  const stream s;
  CHECK(cudaMallocAsync(&p, total + mib, s) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  ok(cudaMalloc(&p, mib));
  ok(cudaFree(p));
}

// cudaFree: "If devPtr is 0, no operation is performed." "If cudaFree(devPtr) has already been called before, an error
// is returned."
TEST_CASE("what can be freed") {
  ok(cudaFree(nullptr));
  ok(cudaFreeHost(nullptr));
  void* p = nullptr;
  ok(cudaMalloc(&p, mib));
  ok(cudaFree(p));
  CHECK(cudaFree(p) != cudaSuccess);
  static_cast<void>(cudaGetLastError());
}

// cudaMallocAsync: "Basic stream ordering allows future work submitted into the same stream to use the allocation.
// Stream query, stream synchronize, and CUDA events can be used to guarantee that the allocation operation completes
// before work submitted in a separate stream runs." cudaFreeAsync: "The allocation must not be accessed after stream
// execution reaches the free."
TEST_CASE("memory is used between its allocation and its free, in stream order") {
  const device_ints x(1);
  const stream a;
  const stream b;
  const event e;
  for (int round = 1; round <= 3; ++round) {
    void* p = nullptr;
    ok(cudaMallocAsync(&p, mib, a));
    write(a, static_cast<int*>(p), round, 2 * slow_milliseconds);
    ok(cudaEventRecord(e, a));
    ok(cudaStreamWaitEvent(b, e, 0));
    read(b, x, static_cast<int*>(p), slow_milliseconds);
    ok(cudaFreeAsync(p, b));
    CHECK(value(x) == round);
  }
}

// cudaMemPoolReuseFollowEventDependencies: "Allow cuMemAllocAsync to use memory asynchronously freed in another streams
// as long as a stream ordering dependency of the allocating stream on the free action exists."
TEST_CASE("memory freed in another stream comes back behind an event") {
  const device_ints x(1);
  const stream a;
  const stream b;
  const event e;
  const pool from(cudaMemPoolReuseFollowEventDependencies);
  int* p = from.take(mib, a);
  write(a, p, 1);
  read(a, x, p, slow_milliseconds);
  ok(cudaFreeAsync(p, a));
  int* without = from.take(mib, b);  // no order yet
  CHECK(without != p);
  ok(cudaEventRecord(e, a));
  ok(cudaStreamWaitEvent(b, e, 0));
  int* with = from.take(mib, b);
  usually(with == p);
  write(b, with, 2);
  CHECK(value(x) == 1);
  ok(cudaFreeAsync(with, b));
  ok(cudaFreeAsync(without, b));
  ok(cudaDeviceSynchronize());
}

// cudaMemPoolReuseAllowOpportunistic: "Allow reuse of already completed frees when there is no dependency between the
// free and allocation." CUDA Programming Guide: "When this is disabled, the allocator will still reuse memory made
// available when a stream is synchronized with the CPU."
TEST_CASE("memory freed in another stream comes back once the free is over, or once the host knows that it is") {
  const bool opportunistic = GENERATE(true, false);
  const device_ints x(1);
  const device_ints y(1);
  const stream a;
  const stream b;
  const stream longer;
  const event e;
  const pool from(opportunistic ? std::optional(cudaMemPoolReuseAllowOpportunistic) : std::nullopt);
  int* p = from.take(mib, a);
  write(a, p, 1);
  read(a, x, p, slow_milliseconds);
  ok(cudaFreeAsync(p, a));
  ok(cudaEventRecord(e, a));
  ok(cudaStreamWaitEvent(b, e, 0));  // this pool does not look at events
  int* early = from.take(mib, b);
  usually(early != p);
  write(longer, y, 1, 4 * slow_milliseconds);
  ok(cudaStreamSynchronize(longer));  // the free is over too, but nobody has asked
  int* over = from.take(mib, b);
  usually((over == p) == opportunistic);
  ok(cudaStreamSynchronize(a));
  int* known = opportunistic ? over : from.take(mib, b);
  usually(known == p);
  write(b, known, 2);
  CHECK(value(x) == 1);
  ok(cudaFreeAsync(early, b));
  ok(cudaFreeAsync(over, b));
  if (known != over) ok(cudaFreeAsync(known, b));
  ok(cudaDeviceSynchronize());
}

// cudaMemPoolReuseAllowInternalDependencies: "Allow cuMemAllocAsync to insert new stream dependencies in order to
// establish the stream ordering required to reuse a piece of memory released by cuFreeAsync".
TEST_CASE("memory freed in another stream comes back behind an order that the allocator makes") {
  const device_ints x(1);
  const stream a;
  const stream b;
  const pool from(cudaMemPoolReuseAllowInternalDependencies, 64 * mib);
  int* p = from.take(64 * mib, a);
  write(a, p, 1);
  read(a, x, p, slow_milliseconds);
  ok(cudaFreeAsync(p, a));
  void* q = nullptr;
  const cudaError_t error = cudaMallocFromPoolAsync(&q, 64 * mib, from, b);
  usually(error == cudaSuccess && q == p);
  if (error == cudaSuccess) {
    write(b, static_cast<int*>(q), 2);
    ok(cudaFreeAsync(q, b));
  }
  static_cast<void>(cudaGetLastError());
  CHECK(value(x) == 1);
}

// cudaMemPoolAttrReleaseThreshold: "When more than the release threshold bytes of memory are held by the memory pool,
// the allocator will try to release memory back to the OS on the next call to stream, event or context synchronize."
TEST_CASE("what a pool keeps") {
  const stream s;
  const pool from(cudaMemPoolReuseFollowEventDependencies);
  int* p = from.take(mib, s);
  CHECK(from.number(cudaMemPoolAttrUsedMemCurrent) >= mib);
  ok(cudaFreeAsync(p, s));
  ok(cudaStreamSynchronize(s));
  CHECK(from.number(cudaMemPoolAttrUsedMemCurrent) == 0);
  CHECK(from.number(cudaMemPoolAttrUsedMemHigh) >= mib);
  usually(from.number(cudaMemPoolAttrReservedMemCurrent) >= mib);
  std::uint64_t keep = 0;
  ok(cudaMemPoolSetAttribute(from, cudaMemPoolAttrReleaseThreshold, &keep));
  ok(cudaStreamSynchronize(s));
  usually(from.number(cudaMemPoolAttrReservedMemCurrent) == 0);
}

// cudaMemPoolDestroy: "If any pointers obtained from this pool haven't been freed […] the function will return
// immediately and the resources associated with the pool will be released automatically once there are no more
// outstanding allocations." "A device's default memory pool cannot be destroyed."
TEST_CASE("a pool may go before its memory") {
  const device_ints x(1);
  const stream s;
  int* p = nullptr;
  {
    const pool from(cudaMemPoolReuseFollowEventDependencies);
    p = from.take(mib, s);
    slow_write(s, p, 3);
  }
  read(s, x, p);
  ok(cudaFreeAsync(p, s));
  CHECK(value(x) == 3);
  cudaMemPool_t standard = nullptr;
  ok(cudaDeviceGetDefaultMemPool(&standard, 0));
  CHECK(cudaMemPoolDestroy(standard) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
}

// cudaPointerGetAttributes: the types of memory. cudaHostRegister: "cudaErrorHostMemoryAlreadyRegistered",
// cudaHostUnregister: "cudaErrorHostMemoryNotRegistered".
TEST_CASE("kinds of memory") {
  const device_ints x(1);
  const pinned_ints h(1);
  std::vector<char> pageable(4 * mib);
  const auto type = [](const void* p) {
    cudaPointerAttributes a{};
    ok(cudaPointerGetAttributes(&a, p));
    return a.type;
  };
  CHECK(type(x) == cudaMemoryTypeDevice);
  CHECK(type(h) == cudaMemoryTypeHost);
  CHECK(type(pageable.data()) == cudaMemoryTypeUnregistered);
  auto* page = pageable.data() + mib;
  page -= reinterpret_cast<std::uintptr_t>(page) % 4096;
  ok(cudaHostRegister(page, mib, cudaHostRegisterDefault));
  CHECK(type(page) == cudaMemoryTypeHost);
  CHECK(cudaHostRegister(page, mib, cudaHostRegisterDefault) == cudaErrorHostMemoryAlreadyRegistered);
  ok(cudaHostUnregister(page));
  CHECK(type(page) == cudaMemoryTypeUnregistered);
  CHECK(cudaHostUnregister(page) == cudaErrorHostMemoryNotRegistered);
  static_cast<void>(cudaGetLastError());
}

// cudaGetLastError: "Returns the last error that has been produced by any of the runtime calls in […] the host thread
// and resets it to cudaSuccess." cudaPeekAtLastError: "This call does not reset the error".
TEST_CASE("the last error is the thread's, until it is asked for") {
  static_cast<void>(cudaGetLastError());
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  int device = 0;
  ok(cudaGetDevice(&device));  // a success does not reset it
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  cudaError_t there = cudaErrorUnknown;
  std::thread([&there] { there = cudaPeekAtLastError(); }).join();
  CHECK(there == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(std::strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0);
  CHECK(std::strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
}
