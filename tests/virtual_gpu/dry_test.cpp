// Dry mode: times, capacity and findings without storage.

#include <algorithm>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>

#include "support.hpp"

namespace {

constexpr std::size_t mb = 1'000'000;

/// What the program under test does on a machine of round numbers; returns how long it took.
double step(gpu& g, const std::byte* from, std::byte* to) {
  auto* s = g.stream();
  auto* x = g.device(mb);
  const double zero = vg::now();
  ok(cudaMemcpyAsync(x, from, mb, cudaMemcpyHostToDevice, s));
  ok(launch(s, "k", {{x, mb}}, {{x, mb}}, {.flops = 3e6}, [x] { x[0] = std::byte{7}; }));
  ok(cudaMemsetAsync(x + mb / 2, 1, mb / 2, s));
  ok(cudaMemcpyAsync(to, x, mb, cudaMemcpyDeviceToHost, s));
  ok(cudaStreamSynchronize(s));
  return vg::now() - zero;
}

/// Bytes of this process that lie in memory.
double resident() {
  std::ifstream file("/proc/self/statm");
  double total = 0;
  double pages = 0;
  file >> total >> pages;
  return pages * 4096;
}

}  // namespace

TEST_CASE("dry: the same times and findings, no effects") {
  double times[2] = {};
  std::byte first[2] = {};
  for (const auto how : {vg::mode::execute, vg::mode::dry}) {
    gpu g(round_numbers(), 1, how);
    const auto i = static_cast<std::size_t>(how);
    auto* from = g.pinned(mb);
    auto* to = g.pinned(mb);
    std::memset(to, 9, mb);
    times[i] = step(g, from, to);
    first[i] = to[0];
    CHECK(silent());
    auto* y = g.device(mb);
    ok(launch(g.stream(), "reads nothing written", {{y, mb}}, {}));
    CHECK(found(vg::finding_kind::uninitialised_read) == 1);
    void* p = nullptr;
    CHECK(cudaMalloc(&p, 63 * mb) == cudaErrorMemoryAllocation);
  }
  CHECK(times[0] == us(17 + 4 + 1.5 + 19.5));
  CHECK(times[1] == times[0]);
  CHECK(first[0] == std::byte{7});
  CHECK(first[1] == std::byte{9});
}

TEST_CASE("dry: operations on memory with storage take effect") {
  gpu g(round_numbers(), 1, vg::mode::dry);
  auto* s = g.stream();
  auto* x = g.device(mb);
  auto* h = g.pinned(mb);
  const auto kernel = [&](std::byte* at, std::size_t bytes) {
    ok(launch(s, "k", {}, {{at, bytes}}, {}, [at] { *at = static_cast<std::byte>(static_cast<int>(*at) + 1); }));
  };
  vg::keep_storage(x + 4096, 64);
  vg::keep_storage(x + 4096 + 64, 64);
  vg::keep_storage(h, 256);
  kernel(x + 4096, 128);
  kernel(x + 4096, 129);                                            // one byte too many
  ok(launch(s, "k", {}, {}, {}, [x] { x[4096] = std::byte{9}; }));  // declares nothing
  ok(cudaMemsetAsync(x + 4097, 5, 3, s));
  ok(cudaMemsetAsync(x, 5, mb, s));
  ok(cudaMemcpyAsync(h, x + 4096, 128, cudaMemcpyDeviceToHost, s));
  ok(cudaMemcpyAsync(h + 128, x, 128, cudaMemcpyDeviceToHost, s));
  ok(cudaMemcpyAsync(h + 200, x + 4096, 100, cudaMemcpyDeviceToHost, s));  // no room for all of it
  ok(cudaStreamSynchronize(s));
  CHECK(h[0] == std::byte{1});
  CHECK(h[1] == std::byte{5});
  CHECK(h[4] == std::byte{0});
  CHECK(std::all_of(h + 128, h + 256, [](std::byte b) { return b == std::byte{0}; }));

  // Pageable memory has storage.
  int counts[4] = {1, 2, 3, 4};
  ok(cudaMemcpyAsync(x + 4096, counts, sizeof counts, cudaMemcpyHostToDevice, s));
  std::fill(std::begin(counts), std::end(counts), 0);
  ok(cudaMemcpyAsync(counts, x + 4096, sizeof counts, cudaMemcpyDeviceToHost, s));
  CHECK(counts[3] == 4);
  counts[3] = 8;
  ok(cudaMemcpyAsync(counts, x, sizeof counts, cudaMemcpyDeviceToHost, s));
  CHECK(counts[3] == 8);

  CHECK_THROWS_AS(vg::keep_storage(x + 1, mb), std::invalid_argument);
  CHECK_THROWS_AS(vg::keep_storage(counts, 1), std::invalid_argument);
}

TEST_CASE("dry: storage goes with the allocation, also where a pool hands the block out again") {
  gpu g(round_numbers(), 1, vg::mode::dry);
  auto* s = g.stream();
  int result[2] = {-1, -1};
  void* last = nullptr;
  for (int i = 0; i < 2; ++i) {
    void* p = nullptr;
    ok(cudaMallocAsync(&p, 256, s));
    if (i == 0) vg::keep_storage(p, 256);
    if (i == 1) CHECK(p == last);
    last = p;
    ok(cudaMemsetAsync(p, 0, 256, s));
    ok(cudaMemcpyAsync(&result[i], p, sizeof(int), cudaMemcpyDeviceToHost, s));
    ok(cudaFreeAsync(p, s));
  }
  CHECK(result[0] == 0);
  CHECK(result[1] == -1);
}

TEST_CASE("dry: a full GB200 steps in little memory") {
  gpu g(vg::gb200(), 1, vg::mode::dry);
  constexpr std::size_t gib = std::size_t{1} << 30;
  const double before = resident();
  auto* s = g.stream();
  auto* d = g.device(184 * gib);
  auto* h = g.pinned(400 * gib);
  const double zero = vg::now();
  ok(cudaMemsetAsync(d, 0, 184 * gib, s));
  ok(cudaMemcpyAsync(h, d, 184 * gib, cudaMemcpyDeviceToHost, s));
  ok(launch(s, "k", {{d, 100 * gib}}, {{d + 100 * gib, 84 * gib}}, {.bytes = 184e9}));
  ok(cudaStreamSynchronize(s));
  CHECK(vg::now() - zero > 184 * 1.0737 / 193);  // the copy alone
  CHECK(resident() - before < 64e6);
  CHECK(vg::memory_usage().device_bytes == 184 * gib);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, gib) == cudaErrorMemoryAllocation);
  CHECK(silent());
}
