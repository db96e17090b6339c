#pragma once
// What the tests of the virtual GPU share: a machine of round numbers, and short words for the CUDA calls.

#include <cstddef>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include <hostoffload/virtual_gpu/control.hpp>

#include "catch.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define HOSTOFFLOAD_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOSTOFFLOAD_ADDRESS_SANITIZER
#endif
#endif

namespace vg = hostoffload::virtual_gpu;

inline constexpr double micro = 1e-6;

inline void ok(cudaError_t error) {
  INFO(cudaGetErrorName(error));
  REQUIRE(error == cudaSuccess);
}

/// Times in microseconds, compared to a picosecond.
inline Approx us(double value) { return Approx(value * micro).margin(1e-12).epsilon(1e-12); }

/// Calls cost nothing; what takes time can be worked out in the head: 1 MB is 10 µs to the device and 12.5 µs back.
inline vg::machine round_numbers() {
  vg::machine m = vg::gb200();
  m.name = "round numbers";
  m.device_memory = {64e6, "test"};
  m.host_memory = {256e6, "test"};
  m.devices_per_host = 2;
  m.compute = {};
  m.compute[hostoffload_fp32] = {1e12, "test"};
  m.compute[hostoffload_bf16] = {100e12, "test"};
  m.hbm = {1e12, "test"};
  m.peer = {500e9, "test"};
  m.link.to_device = {100e9, "test"};
  m.link.to_host = {80e9, "test"};
  m.link.both = {60e9, "test"};
  m.link.all_to_device = {150e9, "test"};
  m.link.all_to_host = {140e9, "test"};
  m.link.all_both = {200e9, "test"};
  m.link.first_latency = {7e-6, "test"};
  m.link.queued_latency = {2e-6, "test"};
  m.link.batched_latency = {1e-6, "test"};
  m.kernel_latency = {1e-6, "test"};
  m.wait_latency = {3e-6, "test"};
  m.host_function = {100e-6, "test"};
  const vg::host_costs rates = m.host;
  m.host = {};
  m.host.pin_fresh = rates.pin_fresh;
  m.host.pin_touched = rates.pin_touched;
  m.host.pageable = {10e9, "test"};
  return m;
}

struct range {
  const void* begin;
  std::size_t bytes;
};

struct work {
  double flops = 0;
  double bytes = 0;
  double seconds = 0;
  hostoffload_precision precision = hostoffload_fp32;
};

/// A kernel that calls `body` when it completes.
template <typename Body>
cudaError_t launch(cudaStream_t stream, const char* name, const std::vector<range>& reads,
                   const std::vector<range>& writes, const work& w, Body body) {
  std::vector<hostoffload_range> r;
  std::vector<hostoffload_range> t;
  r.reserve(reads.size());
  t.reserve(writes.size());
  for (const auto& x : reads) r.push_back({x.begin, x.bytes});
  for (const auto& x : writes) t.push_back({x.begin, x.bytes});
  hostoffload_kernel k{};
  k.name = name;
  k.reads = r.data();
  k.read_count = r.size();
  k.writes = t.data();
  k.write_count = t.size();
  k.flops = w.flops;
  k.bytes = w.bytes;
  k.seconds = w.seconds;
  k.precision = w.precision;
  k.closure_bytes = sizeof(Body);
  k.closure_align = alignof(Body);
  k.closure = &body;
  k.copy = [](void* to, const void* from) { ::new (to) Body(*static_cast<const Body*>(from)); };
  k.run = [](void* closure) { (*static_cast<Body*>(closure))(); };
  k.destroy = [](void* closure) { static_cast<Body*>(closure)->~Body(); };
  return hostoffload_launch(stream, &k);
}

/// A kernel that only takes time.
inline cudaError_t launch(cudaStream_t stream, const char* name, const std::vector<range>& reads,
                          const std::vector<range>& writes, const work& w = {}) {
  return launch(stream, name, reads, writes, w, [] {});
}

/// A fresh machine, with streams, events and memory that go back at the end.
class gpu {
public:
  explicit gpu(vg::machine m = round_numbers(), int devices = 1, vg::mode how = vg::mode::execute) {
    vg::reset(std::move(m), devices, how);
  }
  gpu(const gpu&) = delete;
  gpu& operator=(const gpu&) = delete;
  ~gpu() {
    for (int d = 0; d < 2; ++d) {
      if (cudaSetDevice(d) == cudaSuccess) static_cast<void>(cudaDeviceSynchronize());
    }
    for (auto* e : events_) static_cast<void>(cudaEventDestroy(e));
    for (auto* s : streams_) static_cast<void>(cudaStreamDestroy(s));
    for (auto* p : device_) static_cast<void>(cudaFree(p));
    for (auto* p : pinned_) static_cast<void>(cudaFreeHost(p));
    static_cast<void>(cudaSetDevice(0));
    static_cast<void>(cudaGetLastError());
  }

  cudaStream_t stream(unsigned flags = cudaStreamNonBlocking, int priority = 0) {
    cudaStream_t s = nullptr;
    ok(cudaStreamCreateWithPriority(&s, flags, priority));
    streams_.push_back(s);
    return s;
  }
  cudaEvent_t event(unsigned flags = cudaEventDisableTiming) {
    cudaEvent_t e = nullptr;
    ok(cudaEventCreateWithFlags(&e, flags));
    events_.push_back(e);
    return e;
  }
  std::byte* device(std::size_t bytes) {
    void* p = nullptr;
    ok(cudaMalloc(&p, bytes));
    device_.push_back(p);
    return static_cast<std::byte*>(p);
  }
  /// Device memory that counts as written.
  std::byte* filled(std::size_t bytes) {
    std::byte* p = device(bytes);
    ok(cudaMemset(p, 0, bytes));
    ok(cudaDeviceSynchronize());
    return p;
  }
  std::byte* pinned(std::size_t bytes) {
    void* p = nullptr;
    ok(cudaHostAlloc(&p, bytes, cudaHostAllocDefault));
    pinned_.push_back(p);
    return static_cast<std::byte*>(p);
  }

private:
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
  std::vector<void*> device_, pinned_;
};

/// The n-th operation of a kind, or kernel of a name, that has completed; times relative to `zero`.
inline vg::operation completed(std::string_view what, std::size_t n = 0, double zero = 0) {
  for (auto& op : vg::timeline()) {
    if (op.name != what && to_string(op.kind) != what) continue;
    if (n-- > 0) continue;
    op.enqueued -= zero;
    op.start -= zero;
    op.end -= zero;
    return op;
  }
  FAIL("no such operation: " << what);
  return {};
}

inline bool silent() {
  for (const auto& f : vg::findings()) UNSCOPED_INFO(f.message);
  return vg::findings().empty();
}

/// How many distinct findings of a kind there are.
inline std::size_t found(vg::finding_kind kind) {
  std::size_t count = 0;
  for (const auto& f : vg::findings()) {
    if (f.kind == kind) ++count;
    UNSCOPED_INFO(f.message);
  }
  return count;
}
