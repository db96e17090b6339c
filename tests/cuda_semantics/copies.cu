// Copies and memsets, and which of them the host waits for.
// Quotations: CUDA Runtime API reference; "api sync" stands for its section "API synchronization behavior".

#include <algorithm>
#include <iterator>
#include <vector>

#include "support.hpp"

using namespace semantics;

namespace {
constexpr std::size_t mib = std::size_t{1} << 20;
}

// api sync, synchronous: "For transfers from device to either pageable or pinned host memory, the function returns only
// once the copy has completed."
TEST_CASE("cudaMemcpy to the host has copied when it returns") {
  const device_ints x(1);
  const pinned_ints pinned(1);
  int pageable = 0;
  slow_write(nullptr, x, 4);
  ok(cudaMemcpy(&pageable, x, sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(pageable == 4);
  slow_write(nullptr, x, 5);
  ok(cudaMemcpy(pinned, x, sizeof(int), cudaMemcpyDefault));
  CHECK(pinned[0] == 5);
}

// api sync, synchronous: "For transfers from pinned host memory to device memory, the function is synchronous with
// respect to the host." "For transfers from pageable host memory to device memory, […] the function will return once
// the pageable buffer has been copied to the staging memory".
TEST_CASE("the source of cudaMemcpy may change when it returns") {
  const std::size_t n = mib;
  const device_ints x(n);
  const pinned_ints pinned(n);
  std::vector<int> pageable(n, 1);
  pinned[n - 1] = 2;
  ok(cudaMemcpy(x, pinned, n * sizeof(int), cudaMemcpyHostToDevice));
  pinned[n - 1] = 0;
  CHECK(value(x.at(n - 1)) == 2);
  ok(cudaMemcpy(x, pageable.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  pageable.assign(n, 0);
  CHECK(value(x.at(n - 1)) == 1);
}

// api sync, asynchronous: "For transfers between device memory and pageable host memory, the function might be
// synchronous with respect to host." So the host waits before it looks, and memory stays; CUDA stages small sources,
// which we do not rely on here.
TEST_CASE("asynchronous copies from and to pageable memory are in stream order") {
  const device_ints x(2);
  const stream s;
  std::vector<int> from(1, 6);
  std::vector<int> to(2, 0);
  slow_write(s, x, 1);
  ok(cudaMemcpyAsync(to.data(), x, sizeof(int), cudaMemcpyDeviceToHost, s));
  ok(cudaMemcpyAsync(x, from.data(), sizeof(int), cudaMemcpyHostToDevice, s));
  ok(cudaMemcpyAsync(to.data() + 1, x, sizeof(int), cudaMemcpyDeviceToHost, s));
  ok(cudaStreamSynchronize(s));
  CHECK(to[0] == 1);
  CHECK(to[1] == 6);
}

// cudaMemcpyAsync: "asynchronous with respect to the host, so the call may return before the copy is complete."
TEST_CASE("asynchronous copies of pinned memory do not hold up the host") {
  const device_ints x(2);
  const pinned_ints h(2);
  const stream s;
  h[1] = 8;
  slow_write(s, x, 7);
  ok(cudaMemcpyAsync(h, x, sizeof(int), cudaMemcpyDeviceToHost, s));
  ok(cudaMemcpyAsync(x.at(1), h + 1, sizeof(int), cudaMemcpyHostToDevice, s));
  usually(cudaStreamQuery(s) == cudaErrorNotReady);
  ok(cudaStreamSynchronize(s));
  CHECK(h[0] == 7);
  CHECK(value(x.at(1)) == 8);
}

// api sync: "For transfers from any host memory to any host memory, the function is fully synchronous with respect to
// the host." "For transfers from device memory to device memory, no host-side synchronization is performed."
TEST_CASE("copies within the host wait, copies within the device do not") {
  const device_ints x(2);
  const pinned_ints h(1);
  const stream s;
  const int from = 9;
  ok(cudaMemcpyAsync(h, &from, sizeof(int), cudaMemcpyHostToHost, s));
  CHECK(h[0] == 9);
  slow_write(nullptr, x, 1);
  ok(cudaMemcpy(x.at(1), x, sizeof(int), cudaMemcpyDeviceToDevice));
  usually(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  CHECK(value(x.at(1)) == 1);
}

// api sync, memset: "The cudaMemset functions are asynchronous with respect to the host except when the target is
// pinned host memory".
TEST_CASE("memsets") {
  const device_ints x(2);
  const pinned_ints h(1);
  slow_write(nullptr, x, 1);
  ok(cudaMemset(x, 0xff, sizeof(int)));
  usually(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  ok(cudaMemset(h, 0xff, sizeof(int)));
  CHECK(h[0] == -1);
  CHECK(value(x) == -1);
}

// cudaMemcpyKind: "Direction of the transfer is inferred from the pointer values" (cudaMemcpyDefault). cudaMemcpy
// returns "cudaErrorInvalidMemcpyDirection".
TEST_CASE("directions of copies") {
  const device_ints x(1);
  const int from = 3;
  ok(cudaMemcpy(x, &from, sizeof from, cudaMemcpyDefault));
  CHECK(value(x) == 3);
  CHECK(cudaMemcpy(x, &from, sizeof from, static_cast<cudaMemcpyKind>(7)) == cudaErrorInvalidMemcpyDirection);
  static_cast<void>(cudaGetLastError());
}

// cudaMemcpy2D: "Copies a matrix (height rows of width bytes each)". "width must not exceed either dpitch or spitch."
TEST_CASE("rows") {
  const device_ints x(12);
  const int from[2][3] = {{1, 2, 3}, {4, 5, 6}};
  int to[12] = {};
  ok(cudaMemcpy2D(x, 5 * sizeof(int), from, 3 * sizeof(int), 2 * sizeof(int), 2, cudaMemcpyHostToDevice));
  ok(cudaMemcpy(to, x, sizeof to, cudaMemcpyDeviceToHost));
  const int expected[12] = {1, 2, 0, 0, 0, 4, 5, 0, 0, 0, 0, 0};
  CHECK(std::equal(std::begin(to), std::end(to), std::begin(expected)));
  ok(cudaMemset2D(x.at(1), 5 * sizeof(int), 0xff, sizeof(int), 2));
  CHECK(value(x.at(1)) == -1);
  CHECK(value(x.at(5)) == 4);
  CHECK(value(x.at(6)) == -1);
  CHECK(cudaMemcpy2D(x, 4, from, 12, 8, 2, cudaMemcpyHostToDevice) == cudaErrorInvalidPitchValue);
  static_cast<void>(cudaGetLastError());
}

#if CUDART_VERSION >= 13000
// cudaMemcpyBatchAsync: "The batch as a whole executes in stream order but copies within a batch are not guaranteed to
// execute in any specific order." "Must not be legacy NULL stream."
TEST_CASE("a batch of copies is in stream order") {
  const device_ints x(3);
  const pinned_ints h(2);
  const stream s;
  h[1] = 2;
  slow_write(s, x, 1);
  void* to[] = {h, x.at(1)};
  const void* from[] = {x, h + 1};
  const std::size_t bytes[] = {sizeof(int), sizeof(int)};
  std::size_t first[] = {0};
  cudaMemcpyAttributes attributes[] = {{cudaMemcpySrcAccessOrderStream, {}, {}, 0}};
  ok(cudaMemcpyBatchAsync(to, from, bytes, 2, attributes, first, 1, s));
  read(s, x.at(2), x.at(1));
  ok(cudaStreamSynchronize(s));
  CHECK(h[0] == 1);
  CHECK(value(x.at(2)) == 2);
  CHECK(cudaMemcpyBatchAsync(to, from, bytes, 2, attributes, first, 1, nullptr) != cudaSuccess);
  static_cast<void>(cudaGetLastError());
}
#endif
