// Copies of rows, batches of copies, host functions.

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "support.hpp"

namespace {

constexpr std::size_t mb = 1'000'000;

}  // namespace

TEST_CASE("rows go to rows, and what lies between them stays") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(1024);
  std::vector<unsigned char> from(1024);
  std::vector<unsigned char> to(1024, 0xff);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i % 251);
  // 5 rows of 7 bytes: 16 apart here, 100 apart there, 9 apart at the end.
  const bool async = GENERATE(false, true);
  CAPTURE(async);
  if (async) {
    ok(cudaMemcpy2DAsync(d, 100, from.data(), 16, 7, 5, cudaMemcpyHostToDevice, s));
    ok(cudaMemcpy2DAsync(to.data(), 9, d, 100, 7, 5, cudaMemcpyDeviceToHost, s));
  } else {
    ok(cudaMemcpy2D(d, 100, from.data(), 16, 7, 5, cudaMemcpyHostToDevice));
    ok(cudaMemcpy2D(to.data(), 9, d, 100, 7, 5, cudaMemcpyDefault));
  }
  for (std::size_t row = 0; row < 5; ++row) {
    CHECK(std::equal(&to[row * 9], &to[row * 9 + 7], &from[row * 16]));
    CHECK(to[row * 9 + 7] == 0xff);
  }
  std::vector<unsigned char> all(1024);
  ok(cudaMemcpy(all.data(), d, 1024, cudaMemcpyDeviceToHost));
  CHECK(std::count(all.begin(), all.end(), 0) == 1024 - 35 + std::count(to.begin(), to.begin() + 45, 0));

  ok(cudaMemset2DAsync(d, 100, 1, 10, 3, s));
  ok(cudaStreamSynchronize(s));
  ok(cudaMemset2D(d + 50, 100, 1, 10, 3));
  ok(cudaMemcpy(all.data(), d, 1024, cudaMemcpyDeviceToHost));
  CHECK(std::count(all.begin(), all.begin() + 300, 1) >= 60);
  CHECK(all[9] == 1);
  CHECK(all[10] != 1);
  CHECK(all[250] == 1);
  CHECK(all[350] == 0);
  CHECK(silent());
}

TEST_CASE("rows: time, the detector and errors") {
  gpu g;
  auto* s = g.stream();
  auto* t = g.stream();
  auto* d = g.filled(2 * mb);
  auto* h = g.pinned(2 * mb);
  const double zero = vg::now();
  ok(cudaMemcpy2DAsync(d, 2000, h, 1000, 1000, 1000, cudaMemcpyHostToDevice, s));
  ok(cudaMemset2DAsync(d + 1000, 2000, 0, 1000, 1000, t));  // the gaps: no conflict
  ok(cudaDeviceSynchronize());
  CHECK(completed("copy to device", 0, zero).end == us(7 + 10));
  CHECK(completed("cudaMemset2DAsync", 0, zero).bytes == Approx(mb));
  CHECK(silent());
  ok(cudaMemcpy2DAsync(d, 2000, h, 1000, 1000, 1000, cudaMemcpyHostToDevice, s));
  ok(cudaMemset2DAsync(d + 999, 2000, 0, 1000, 1000, t));
  CHECK(found(vg::finding_kind::race) == 1);
  vg::clear_findings();
  ok(cudaDeviceSynchronize());

  CHECK(cudaMemcpy2D(d, 9, h, 10, 10, 2, cudaMemcpyDefault) == cudaErrorInvalidPitchValue);
  CHECK(cudaMemcpy2D(d, 10, h, 9, 10, 2, cudaMemcpyDefault) == cudaErrorInvalidPitchValue);
  CHECK(cudaMemset2D(d, 9, 0, 10, 2) == cudaErrorInvalidPitchValue);
  ok(cudaMemcpy2D(d, 10, h, 10, 0, 2, cudaMemcpyDefault));
  ok(cudaMemcpy2D(d, 10, h, 10, 10, 0, cudaMemcpyDefault));
  CHECK(cudaMemcpy2D(d, 2000, h, 2000, 1000, 1001, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK(found(vg::finding_kind::out_of_bounds) == 1);
}

#if CUDART_VERSION >= 13000

namespace {

struct batch {
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<std::size_t> bytes;
  std::vector<cudaMemcpyAttributes> attributes = {{cudaMemcpySrcAccessOrderStream, {}, {}, 0}};
  std::vector<std::size_t> firsts = {0};

  void add(void* t, const void* f, std::size_t n) {
    to.push_back(t);
    from.push_back(f);
    bytes.push_back(n);
  }
  cudaError_t copy(cudaStream_t s) {
    return cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), to.size(), attributes.data(), firsts.data(),
                                attributes.size(), s);
  }
};

}  // namespace

TEST_CASE("a batch copies all its entries, in stream order, with less time in between") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(4 * mb);
  auto* h = g.pinned(4 * mb);
  for (std::size_t i = 0; i < 4; ++i) std::memset(h + i * mb, static_cast<int>(i + 1), mb);
  batch b;
  for (std::size_t i = 0; i < 4; ++i) b.add(d + (3 - i) * mb, h + i * mb, mb);
  const double zero = vg::now();
  ok(b.copy(s));
  ok(cudaMemcpyAsync(h, d, 4 * mb, cudaMemcpyDeviceToHost, s));
  ok(cudaStreamSynchronize(s));
  for (std::size_t i = 0; i < 4; ++i) CHECK(h[(3 - i) * mb + 5] == static_cast<std::byte>(i + 1));
  CHECK(completed("copy to device", 0, zero).end == us(17));
  CHECK(completed("copy to device", 1, zero).end == us(17 + 11));
  CHECK(completed("copy to device", 3, zero).end == us(17 + 3 * 11));
  CHECK(completed("copy to host", 0, zero).start == us(17 + 3 * 11));
  CHECK(vg::calls("cudaMemcpyBatchAsync") == 1);
  CHECK(vg::bytes_copied(vg::direction::to_device).copies == 4);
  CHECK(silent());
}

TEST_CASE("a batch whose sources are read during the call") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(512);
  auto* h = g.pinned(512);
  std::memset(h, 1, 512);
  batch b;
  b.attributes.push_back({cudaMemcpySrcAccessOrderDuringApiCall, {}, {}, cudaMemcpyFlagPreferOverlapWithCompute});
  b.firsts.push_back(1);
  b.add(d, h, 256);
  b.add(d + 256, h + 256, 256);
  ok(b.copy(s));
  vg::host_writes(h + 256, 256);
  CHECK(silent());
  vg::host_writes(h, 256);
  CHECK(found(vg::finding_kind::host_access_in_flight) == 1);
  std::memset(h, 2, 512);
  std::vector<std::byte> result(512);
  ok(cudaMemcpyAsync(result.data(), d, 512, cudaMemcpyDeviceToHost, s));
  CHECK(result[256] == std::byte{1});
}

TEST_CASE("what a batch refuses: then nothing of it happens") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(1024);
  auto* h = g.pinned(1024);
  const auto before = vg::bytes_copied(vg::direction::to_device).copies;
  batch b;
  b.add(d, h, 256);
  b.add(d + 256, h + 256, 256);
  CHECK(b.copy(nullptr) == cudaErrorInvalidValue);  // "Must not be legacy NULL stream"
  CHECK(b.copy(cudaStreamLegacy) == cudaErrorInvalidValue);
  b.bytes[1] = 0;
  CHECK(b.copy(s) == cudaErrorInvalidValue);
  b.bytes[1] = 256;
  b.firsts[0] = 1;
  CHECK(b.copy(s) == cudaErrorInvalidValue);
  b.firsts = {0, 2};
  b.attributes.push_back(b.attributes[0]);
  CHECK(b.copy(s) == cudaErrorInvalidValue);
  b.firsts = {0, 0};
  CHECK(b.copy(s) == cudaErrorInvalidValue);
  b.firsts = {0, 1};
  b.attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderInvalid;
  CHECK(b.copy(s) == cudaErrorInvalidValue);
  CHECK(vg::bytes_copied(vg::direction::to_device).copies == before);
  CHECK(silent());
  b.attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderAny;
  ok(b.copy(cudaStreamPerThread));
  ok(b.copy(s));
  CHECK(found(vg::finding_kind::race) == 1);  // of both streams
}

TEST_CASE("copies of one batch must not depend on each other") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(1024);
  auto* h = g.pinned(1024);
  batch b;
  b.add(d, h, 256);
  b.add(h + 256, d + 256, 256);
  b.add(d + 512, h, 256);  // read twice
  ok(b.copy(s));
  CHECK(silent());
  SECTION("written twice") { b.add(d + 255, h, 8); }
  SECTION("written and read") { b.add(h + 512, d, 8); }
  SECTION("read and written") { b.add(h + 100, d + 900, 8); }
  ok(b.copy(s));
  CHECK(found(vg::finding_kind::race) == 1);
}

#endif

namespace {

struct notes {
  std::string text;
  cudaError_t error = cudaSuccess;
};

void note_h(void* to) { static_cast<notes*>(to)->text += 'h'; }
void call_cuda(void* to) { static_cast<notes*>(to)->error = cudaStreamSynchronize(nullptr); }

}  // namespace

TEST_CASE("a host function runs in its place and holds up its stream") {
  gpu g;
  auto* s = g.stream();
  notes n;
  const double zero = vg::now();
  ok(launch(s, "first", {}, {}, {.flops = 9e6}, [&n] { n.text += 'a'; }));
  ok(cudaLaunchHostFunc(s, note_h, &n));
  ok(launch(s, "second", {}, {}, {.flops = 9e6}, [&n] { n.text += 'b'; }));
  CHECK(n.text.empty());
  ok(cudaStreamSynchronize(s));
  CHECK(n.text == "ahb");
  CHECK(completed("host function", 0, zero).start == us(10));
  CHECK(completed("host function", 0, zero).end == us(110));
  CHECK(completed("second", 0, zero).end == us(120));
  CHECK(cudaLaunchHostFunc(s, nullptr, &n) == cudaErrorInvalidValue);
  CHECK(silent());
}

TEST_CASE("a host function, or a kernel, that calls CUDA is found") {
  gpu g;
  notes n;
  ok(cudaLaunchHostFunc(nullptr, call_cuda, &n));
  ok(cudaDeviceSynchronize());
  CHECK(n.error == cudaErrorNotPermitted);
  REQUIRE(found(vg::finding_kind::forbidden_call) == 1);
  CHECK(vg::findings()[0].second.find("cudaStreamSynchronize") != std::string::npos);
  ok(launch(nullptr, "k", {}, {}, {}, [&n] { n.error = cudaGetDevice(nullptr); }));
  ok(cudaDeviceSynchronize());
  CHECK(n.error == cudaErrorNotPermitted);
  CHECK(found(vg::finding_kind::forbidden_call) == 2);
}

TEST_CASE("cudaFree of a pool's memory does not wait") {
  gpu g;
  auto* s = g.stream();
  void* p = nullptr;
  ok(cudaMallocAsync(&p, 256, s));
  ok(launch(s, "k", {}, {{p, 256}}, {.flops = 9e6}));
  SECTION("so it must be idle") {
    ok(cudaStreamSynchronize(s));
    ok(launch(s, "long", {}, {}, {.flops = 99e6}));
    const double zero = vg::now();
    ok(cudaFree(p));
    CHECK(vg::now() == zero);
    CHECK(silent());
  }
  SECTION("or it is an error") {
    ok(cudaFree(p));
    CHECK(found(vg::finding_kind::use_after_free) == 1);
  }
}
