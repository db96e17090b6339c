// Under the address sanitizer a kernel can touch what it declares and nothing else, and the host nothing of the device.

#include <memory>

#include "support.hpp"

#ifdef HOSTOFFLOAD_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>

namespace {
bool poisoned(const std::byte* at) { return __asan_address_is_poisoned(at) != 0; }
bool all_poisoned(std::byte* at, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (!poisoned(at + i)) return false;
  }
  return true;
}
bool none_poisoned(std::byte* at, std::size_t bytes) { return __asan_region_is_poisoned(at, bytes) == nullptr; }
}  // namespace

TEST_CASE("device memory is poisoned but for the declared ranges while a kernel runs") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(4096);
  CHECK(all_poisoned(d, 4096));
  const std::size_t begin = GENERATE(std::size_t{0}, std::size_t{8}, std::size_t{1024});
  const std::size_t bytes = GENERATE(std::size_t{1}, std::size_t{7}, std::size_t{64}, std::size_t{1000});
  bool inside = false;
  bool before = true;
  bool after = false;
  ok(launch(s, "k", {{d + begin, bytes}}, {{d + 3000, 8}}, {}, [&] {
    inside = none_poisoned(d + begin, bytes) && none_poisoned(d + 3000, 8);
    before = begin == 0 || poisoned(d + begin - 1);
    after = poisoned(d + begin + bytes) && poisoned(d + 3008);
  }));
  ok(cudaStreamSynchronize(s));
  CHECK(inside);
  CHECK(before);
  CHECK(after);
  CHECK(all_poisoned(d, 4096));
}

TEST_CASE("ranges that overlap, or start within a group of 8 bytes, are poisoned again") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(256);
  bool inside = false;
  ok(launch(s, "k", {{d + 3, 10}, {d, 64}}, {{d + 3, 10}}, {}, [&] { inside = none_poisoned(d, 64); }));
  ok(launch(s, "k", {{d + 101, 3}}, {}, {}, [&] { inside = inside && none_poisoned(d + 101, 3); }));
  ok(cudaStreamSynchronize(s));
  CHECK(inside);
  CHECK(all_poisoned(d, 256));
}

TEST_CASE("copies, memsets and pools leave device memory poisoned, pinned memory is not") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(512);
  auto* h = g.pinned(512);
  ok(cudaMemcpyAsync(h, d, 100, cudaMemcpyDeviceToHost, s));
  ok(cudaMemcpyAsync(d + 101, h, 33, cudaMemcpyHostToDevice, s));
  ok(cudaMemcpyAsync(d + 256, d, 99, cudaMemcpyDeviceToDevice, s));
  ok(cudaMemsetAsync(d, 1, 5, s));
  void* p = nullptr;
  ok(cudaMallocAsync(&p, 300, s));
  ok(cudaStreamSynchronize(s));
  CHECK(all_poisoned(d, 512));
  CHECK(all_poisoned(static_cast<std::byte*>(p), 300));
  CHECK(none_poisoned(h, 512));
  ok(cudaFreeAsync(p, s));
  ok(cudaStreamSynchronize(s));
}

TEST_CASE("addresses that go back to the system are not poisoned") {
  for (int i = 0; i < 3; ++i) {
    vg::reset(round_numbers());
    void* p = nullptr;
    ok(cudaMalloc(&p, 30'000'000));
  }
  vg::reset(round_numbers());
  for (int i = 0; i < 20; ++i) {
    const auto block = std::make_unique<std::byte[]>(10'000'000);
    CHECK(none_poisoned(block.get(), 10'000'000));
  }
}
#endif
