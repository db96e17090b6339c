// Device memory, pinned memory, copies, pools.

#include <cstdint>
#include <cstring>
#include <numeric>
#include <set>
#include <stdexcept>

#include "support.hpp"

namespace {

constexpr std::size_t mb = 1'000'000;

std::vector<unsigned char> numbers(std::size_t n) {
  std::vector<unsigned char> v(n);
  std::iota(v.begin(), v.end(), static_cast<unsigned char>(1));
  return v;
}

void* pool_memory(std::size_t bytes, cudaStream_t s) {
  void* p = nullptr;
  ok(cudaMallocAsync(&p, bytes, s));
  return p;
}

std::uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr attr) {
  std::uint64_t value = 0;
  ok(cudaMemPoolGetAttribute(pool, attr, &value));
  return value;
}

cudaMemPool_t default_pool(std::uint64_t threshold) {
  cudaMemPool_t pool = nullptr;
  ok(cudaDeviceGetDefaultMemPool(&pool, 0));
  ok(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  return pool;
}

}  // namespace

TEST_CASE("bytes go round: pageable, pinned, device, device, back") {
  gpu g;
  auto* s = g.stream();
  const auto source = numbers(1000);
  auto* h = g.pinned(1000);
  auto* a = g.device(1000);
  auto* b = g.device(1000);
  std::memcpy(h, source.data(), 1000);
  ok(cudaMemcpyAsync(a, h, 1000, cudaMemcpyHostToDevice, s));
  ok(cudaMemcpyAsync(b, a, 1000, cudaMemcpyDefault, s));
  ok(cudaMemsetAsync(b + 500, 7, 100, s));
  std::vector<unsigned char> target(1000);
  ok(cudaMemcpyAsync(target.data(), b, 1000, cudaMemcpyDefault, s));  // pageable: returns when the bytes are there
  auto expected = source;
  std::fill_n(expected.begin() + 500, 100, static_cast<unsigned char>(7));
  CHECK(target == expected);
  CHECK(silent());
}

TEST_CASE("copies run when they complete, not when they are enqueued") {
  gpu g;
  auto* s = g.stream();
  auto* h = g.pinned(4);
  auto* d = g.filled(4);
  std::memset(h, 1, 4);
  ok(cudaMemcpyAsync(h, d, 4, cudaMemcpyDeviceToHost, s));
  CHECK(h[0] == std::byte{1});
  ok(cudaStreamSynchronize(s));
  CHECK(h[0] == std::byte{0});
}

TEST_CASE("which copies the host waits for") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(2 * mb);
  auto* h = g.pinned(2 * mb);
  std::vector<std::byte> pageable(2 * mb);
  ok(cudaDeviceSynchronize());
  const auto takes = [](cudaError_t error, double zero) {
    ok(error);
    return (vg::now() - zero) / micro;
  };
  const auto zero = [] {
    ok(cudaDeviceSynchronize());
    return vg::now();
  };
  double t = zero();
  CHECK(takes(cudaMemcpyAsync(d, h, mb, cudaMemcpyHostToDevice, s), t) == Approx(0));
  t = zero();
  CHECK(takes(cudaMemcpy(d, h, mb, cudaMemcpyHostToDevice), t) == Approx(17));
  t = zero();
  CHECK(takes(cudaMemcpy(h, d, mb, cudaMemcpyDeviceToHost), t) == Approx(7 + 12.5));
  t = zero();
  CHECK(takes(cudaMemcpy(d, d + mb, mb, cudaMemcpyDeviceToDevice), t) == Approx(0));
  t = zero();
  CHECK(takes(cudaMemcpyAsync(d, pageable.data(), mb, cudaMemcpyHostToDevice, s), t) == Approx(100));  // staged
  t = zero();
  CHECK(takes(cudaMemcpyAsync(pageable.data(), d, mb, cudaMemcpyDeviceToHost, s), t) == Approx(7 + 12.5 + 100));
  t = zero();
  CHECK(takes(cudaMemcpyAsync(pageable.data(), h, mb, cudaMemcpyHostToHost, s), t) == Approx(100));
  t = zero();
  CHECK(takes(cudaMemset(d, 0, mb), t) == Approx(0));
}

TEST_CASE("a pageable source may change after the call") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.device(1000);
  auto source = numbers(1000);
  const auto expected = source;
  ok(cudaMemcpyAsync(d, source.data(), source.size(), cudaMemcpyHostToDevice, s));
  std::fill(source.begin(), source.end(), static_cast<unsigned char>(0));
  ok(cudaMemcpyAsync(source.data(), d, source.size(), cudaMemcpyDeviceToHost, s));
  CHECK(source == expected);
}

TEST_CASE("copies are checked when they are called") {
  gpu g;
  auto* d = g.device(1000);
  auto* h = g.pinned(1000);
  CHECK(cudaMemcpy(d, h, 1000, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(h, d, 1000, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(d, nullptr, 1000, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(d, h, 1000, static_cast<cudaMemcpyKind>(7)) == cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemset(nullptr, 0, 1) == cudaErrorInvalidValue);
  ok(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault));
  CHECK(silent());
  CHECK(cudaMemcpy(d, h, 1001, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK(found(vg::finding_kind::out_of_bounds) == 1);
}

TEST_CASE("memory is counted, and a full device says so") {
  gpu g;
  std::size_t free = 0;
  std::size_t total = 0;
  ok(cudaMemGetInfo(&free, &total));
  CHECK(total == 64 * mb);
  CHECK(free == total);
  auto* a = g.device(40 * mb);
  g.device(1);
  CHECK(vg::memory_usage().device_bytes == 40 * mb + 256);
  void* p = &total;
  CHECK(cudaMalloc(&p, 24 * mb) == cudaErrorMemoryAllocation);
  CHECK(p == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMallocAsync(&p, 24 * mb, nullptr) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&p, SIZE_MAX / 2) == cudaErrorMemoryAllocation);
  ok(cudaMalloc(&p, 0));
  CHECK(p == nullptr);
  ok(cudaFree(nullptr));
  ok(cudaMemGetInfo(&free, &total));
  CHECK(free == 24 * mb - 256);
  CHECK(reinterpret_cast<std::uintptr_t>(a) % 256 == 0);
  void* big = nullptr;
  ok(cudaMalloc(&big, 20 * mb));
  ok(cudaFree(big));
  CHECK(vg::memory_usage().device_peak == 60 * mb + 256);
  vg::reset_peaks();
  CHECK(vg::memory_usage().device_peak == 40 * mb + 256);
}

TEST_CASE("a machine may have more memory than this one") {
#ifdef HOSTOFFLOAD_ADDRESS_SANITIZER
  const auto how = vg::mode::dry;  // else all of it is poisoned, which really takes an eighth of it
#else
  const auto how = GENERATE(vg::mode::execute, vg::mode::dry);
#endif
  vg::reset(vg::gb200(), 1, how);
  void* p = nullptr;
  ok(cudaMalloc(&p, std::size_t{150} << 30));
  auto* const far = static_cast<std::byte*>(p) + (std::size_t{100} << 30);
  vg::keep_storage(far, 1);
  ok(cudaMemset(far, 7, 1));
  auto back = std::byte{0};
  ok(cudaMemcpy(&back, far, 1, cudaMemcpyDeviceToHost));
  CHECK(back == std::byte{7});
  ok(cudaFree(p));
  CHECK(silent());
}

TEST_CASE("freed addresses are not handed out again at once") {
  gpu g;
  void* first = nullptr;
  ok(cudaMalloc(&first, mb));
  ok(cudaFree(first));
  for (int i = 0; i < 100; ++i) {
    void* p = nullptr;
    ok(cudaMalloc(&p, mb));
    CHECK(p != first);
    ok(cudaFree(p));
  }
}

TEST_CASE("addresses are handed out again when enough others have followed, and what is forgotten is nowhere") {
  gpu g;
  auto* s = g.stream();
  std::set<void*> seen;
  void* first = nullptr;
  std::size_t again = 0;
  for (int i = 0; i < 3 * 4096; ++i) {
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, 256) == cudaSuccess);
    REQUIRE(cudaFree(p) == cudaSuccess);
    if (i == 0) first = p;
    if (!seen.insert(p).second) ++again;
    if (i == 4095) CHECK(again == 0);
  }
  CHECK(again > 0);
  void* last = nullptr;
  ok(cudaMalloc(&last, 256));
  ok(cudaFree(last));
  ok(launch(s, "late", {}, {{last, 1}}));
  CHECK(found(vg::finding_kind::use_after_free) == 1);
  CHECK(cudaMemset(first, 0, 1) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("cudaFree waits for the device") {
  gpu g;
  auto* s = g.stream();
  void* p = nullptr;
  ok(cudaMalloc(&p, 256));
  const double zero = vg::now();
  bool ran = false;
  ok(launch(s, "k", {}, {{p, 256}}, {.flops = 9e6}, [&] { ran = true; }));
  ok(cudaFree(p));
  CHECK(ran);
  CHECK(vg::now() - zero == us(10));
  CHECK(silent());
}

TEST_CASE("pinned and registered memory") {
  gpu g;
  auto* h = g.pinned(10 * mb);
  std::vector<std::byte> own(1000);
  ok(cudaHostRegister(own.data(), own.size(), cudaHostRegisterDefault));
  CHECK(vg::memory_usage().pinned_bytes == 10 * mb + 1000);
  CHECK(cudaHostRegister(own.data() + 10, 10, cudaHostRegisterDefault) == cudaErrorHostMemoryAlreadyRegistered);
  CHECK(cudaHostUnregister(h) == cudaErrorHostMemoryNotRegistered);
  cudaPointerAttributes attributes{};
  ok(cudaPointerGetAttributes(&attributes, own.data() + 5));
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(attributes.devicePointer == own.data() + 5);
  auto* d = g.device(256);
  ok(cudaPointerGetAttributes(&attributes, d));
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.hostPointer == nullptr);
  ok(cudaHostUnregister(own.data()));
  ok(cudaPointerGetAttributes(&attributes, own.data()));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(attributes.devicePointer == nullptr);
  CHECK(cudaHostUnregister(own.data()) == cudaErrorHostMemoryNotRegistered);
  void* seen = nullptr;
  ok(cudaHostGetDevicePointer(&seen, h + 100, 0));
  CHECK(seen == h + 100);
  CHECK(cudaHostGetDevicePointer(&seen, d, 0) == cudaErrorInvalidValue);
  unsigned flags = 0;
  ok(cudaHostGetFlags(&flags, h));
  CHECK(flags == cudaHostAllocMapped);
  void* p = nullptr;
  CHECK(cudaHostAlloc(&p, 247 * mb, cudaHostAllocDefault) == cudaErrorMemoryAllocation);
  CHECK(cudaHostAlloc(&p, 1, 0x40) == cudaErrorInvalidValue);
  CHECK(vg::memory_usage().pinned_peak == 10 * mb + 1000);
  CHECK_THROWS_AS(vg::memory_usage(1), std::invalid_argument);
}

TEST_CASE("pinned memory beyond this machine's addresses") {
  vg::machine m = round_numbers();
  m.host_memory = {1e18, "test"};
  gpu g(m);
  void* p = nullptr;
  CHECK(cudaHostAlloc(&p, std::size_t{1} << 47, cudaHostAllocDefault) == cudaErrorMemoryAllocation);
  CHECK(vg::memory_usage().pinned_bytes == 0);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
}

TEST_CASE("pools: the same stream has its memory back at once") {
  gpu g;
  auto* s = g.stream();
  auto* pool = default_pool(UINT64_MAX);
  void* a = pool_memory(mb, s);
  ok(cudaFreeAsync(a, s));
  void* b = pool_memory(mb - 1000, s);
  CHECK(a == b);
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == mb + (256 - mb % 256) % 256);
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == attribute(pool, cudaMemPoolAttrReservedMemCurrent));
  ok(cudaFreeAsync(b, s));
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
  ok(cudaStreamSynchronize(s));
  CHECK(silent());
}

TEST_CASE("pools: another stream has it behind an event, when the free is over, or else elsewhere") {
  gpu g;
  auto* s = g.stream();
  auto* t = g.stream();
  auto* e = g.event();
  default_pool(UINT64_MAX);
  void* a = pool_memory(mb, s);
  ok(launch(s, "uses it", {}, {{a, mb}}, {.flops = 20e6}));
  ok(cudaFreeAsync(a, s));
  void* elsewhere = pool_memory(mb, t);
  CHECK(elsewhere != a);
  SECTION("by event") {
    ok(cudaEventRecord(e, s));
    ok(cudaStreamWaitEvent(t, e, 0));
  }
  SECTION("because it is over") { vg::host_works(30 * micro); }
  void* b = pool_memory(mb, t);
  CHECK(b == a);
  ok(launch(t, "writes it", {}, {{b, mb}}));
  ok(cudaFreeAsync(b, t));
  ok(cudaFreeAsync(elsewhere, t));
  ok(cudaDeviceSynchronize());
  CHECK(completed("writes it").start >= completed("uses it").end);
  CHECK(silent());
}

TEST_CASE("pools: a full device makes the allocation wait for a free") {
  gpu g;
  auto* s = g.stream();
  auto* t = g.stream();
  auto* pool = default_pool(UINT64_MAX);
  void* a = pool_memory(50 * mb, s);
  ok(launch(s, "uses it", {}, {{a, 100}}, {.flops = 20e6}));
  ok(cudaFreeAsync(a, s));
  SECTION("where the pool may") {
    void* b = pool_memory(40 * mb, t);
    CHECK(b == a);
    ok(launch(t, "writes it", {}, {{b, 100}}));
    ok(cudaFreeAsync(b, t));
    ok(cudaDeviceSynchronize());
    CHECK(completed("writes it").start == completed("uses it").end);
    CHECK(silent());
  }
  SECTION("else it fails") {
    int no = 0;
    ok(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &no));
    void* b = nullptr;
    CHECK(cudaMallocAsync(&b, 40 * mb, t) == cudaErrorMemoryAllocation);
  }
}

TEST_CASE("pools give back at a synchronisation what exceeds the threshold, and everything when the device is full") {
  gpu g;
  auto* s = g.stream();
  constexpr std::size_t block = 10'240'000;  // a multiple of 256
  auto* pool = default_pool(25 * mb);
  void* all[4] = {};
  for (auto*& p : all) p = pool_memory(block, s);
  for (auto* p : all) ok(cudaFreeAsync(p, s));
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 4 * block);
  ok(cudaStreamSynchronize(s));
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 2 * block);
  CHECK(vg::memory_usage().device_bytes == 2 * block);
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemHigh) == 4 * block);
  std::uint64_t zero = 0;
  ok(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &zero));
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemHigh) == 2 * block);
  ok(cudaMemPoolTrimTo(pool, block));
  CHECK(vg::memory_usage().device_bytes == block);
  auto* d = g.device(60 * mb);
  CHECK(d != nullptr);
  CHECK(vg::memory_usage().device_bytes == 60 * mb + (256 - 60 * mb % 256) % 256);
}

TEST_CASE("own pools: a limit, a device's current pool, destruction") {
  gpu g;
  auto* s = g.stream();
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.maxSize = mb;
  cudaMemPool_t pool = nullptr;
  ok(cudaMemPoolCreate(&pool, &props));
  CHECK(vg::leaks().size() == 2);  // the stream, and the pool
  void* p = nullptr;
  CHECK(cudaMallocFromPoolAsync(&p, 2 * mb, pool, s) == cudaErrorMemoryAllocation);
  ok(cudaDeviceSetMemPool(0, pool));
  cudaMemPool_t current = nullptr;
  ok(cudaDeviceGetMemPool(&current, 0));
  CHECK(current == pool);
  ok(cudaMallocAsync(&p, 1000, s));
  ok(cudaMemPoolDestroy(pool));
  CHECK(cudaMemPoolDestroy(pool) == cudaErrorInvalidValue);
  CHECK(vg::memory_usage().device_bytes == 1024);  // until its last allocation is freed
  ok(cudaFreeAsync(p, s));
  ok(cudaStreamSynchronize(s));
  CHECK(vg::memory_usage().device_bytes == 0);
  cudaMemPool_t standard = nullptr;
  ok(cudaDeviceGetDefaultMemPool(&standard, 0));
  ok(cudaDeviceGetMemPool(&current, 0));
  CHECK(current == standard);
  CHECK(cudaMemPoolDestroy(standard) == cudaErrorInvalidValue);
  props.location.type = cudaMemLocationTypeHost;
  CHECK(cudaMemPoolCreate(&pool, &props) == cudaErrorNotSupported);
  props.location = {cudaMemLocationTypeDevice, 1};
  CHECK(cudaMemPoolCreate(&pool, &props) == cudaErrorInvalidDevice);
  CHECK(cudaMemPoolCreate(&pool, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("pools: attributes are as they were set, high-water marks can only be reset") {
  gpu g;
  auto* s = g.stream();
  auto* pool = default_pool(UINT64_MAX);
  CHECK(attribute(pool, cudaMemPoolAttrReleaseThreshold) == UINT64_MAX);
  for (const auto reuse : {cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowOpportunistic,
                           cudaMemPoolReuseAllowInternalDependencies}) {
    for (int on : {0, 1}) {
      int seen = -1;
      ok(cudaMemPoolSetAttribute(pool, reuse, &on));
      ok(cudaMemPoolGetAttribute(pool, reuse, &seen));
      CHECK(seen == on);
    }
  }
  void* p = pool_memory(4096, s);
  ok(cudaFreeAsync(p, s));
  ok(cudaStreamSynchronize(s));
  std::uint64_t none = 0;
  std::uint64_t one = 1;
  for (const auto mark : {cudaMemPoolAttrUsedMemHigh, cudaMemPoolAttrReservedMemHigh}) {
    CHECK(attribute(pool, mark) == 4096);
    CHECK(cudaMemPoolSetAttribute(pool, mark, &one) == cudaErrorInvalidValue);
    ok(cudaMemPoolSetAttribute(pool, mark, &none));
  }
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemHigh) == 0);
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemHigh) == 4096);  // what it holds now
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &none) == cudaErrorInvalidValue);
  CHECK(cudaMemPoolGetAttribute(pool, static_cast<cudaMemPoolAttr>(0), &none) == cudaErrorInvalidValue);
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("cudaFreeAsync takes memory of cudaMalloc, and cudaFree memory of a pool") {
  gpu g;
  auto* s = g.stream();
  void* a = nullptr;
  ok(cudaMalloc(&a, mb));
  ok(launch(s, "k", {}, {{a, mb}}, {.flops = 1e6}));
  ok(cudaFreeAsync(a, s));
  CHECK(vg::memory_usage().device_bytes >= mb);
  ok(cudaStreamSynchronize(s));
  CHECK(vg::memory_usage().device_bytes == 0);
  default_pool(UINT64_MAX);
  void* b = pool_memory(mb, s);
  ok(cudaStreamSynchronize(s));
  ok(cudaFree(b));
  void* c = pool_memory(mb, s);
  CHECK(c == b);
  ok(cudaFreeAsync(c, s));
  ok(cudaStreamSynchronize(s));
  CHECK(silent());
}

TEST_CASE("a device reset forgets what was on the device") {
  gpu g(round_numbers(), 2);
  ok(cudaSetDevice(1));
  cudaStream_t s = nullptr;
  ok(cudaStreamCreate(&s));
  void* p = nullptr;
  ok(cudaMalloc(&p, 1000));
  ok(cudaHostAlloc(&p, 1000, cudaHostAllocDefault));
  std::vector<std::byte> own(1000);
  ok(cudaHostRegister(own.data(), own.size(), cudaHostRegisterDefault));
  CHECK(vg::memory_usage().pinned_bytes == 2000);
  ok(cudaSetDevice(0));
  auto* kept = g.device(1000);
  ok(cudaSetDevice(1));
  ok(cudaDeviceReset());
  REQUIRE(vg::leaks().size() == 1);
  CHECK(vg::memory_usage().pinned_bytes == 0);
  CHECK(cudaHostUnregister(own.data()) == cudaErrorHostMemoryNotRegistered);
  ok(cudaSetDevice(0));
  ok(cudaMemset(kept, 0, 1000));
  CHECK(cudaStreamSynchronize(s) == cudaErrorInvalidResourceHandle);
}
