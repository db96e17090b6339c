// What a program asks of the device, and the rest of what the library and the examples call.
// Quotations: CUDA Runtime API reference; "api sync" stands for its section "API synchronization behavior".

#include "support.hpp"

using namespace semantics;

// cudaGetDeviceCount: "Returns in *count the number of devices […] that are available for execution."
// cudaSetDevice: cudaErrorInvalidDevice, "the device ordinal supplied by the user does not correspond to a valid CUDA
// device".
TEST_CASE("devices are counted from 0") {
  int count = 0;
  ok(cudaGetDeviceCount(&count));
  CHECK(count >= 1);
  int current = -1;
  ok(cudaGetDevice(&current));
  CHECK((current >= 0 && current < count));
  CHECK(cudaSetDevice(count) == cudaErrorInvalidDevice);
  static_cast<void>(cudaGetLastError());
  ok(cudaSetDevice(current));
}

// cudaDriverGetVersion: "Returns in *driverVersion the latest version of CUDA supported by the driver. The version is
// returned as (1000 * major + 10 * minor). […] If no driver is installed, then 0 is returned as the driver version."
TEST_CASE("the driver has a version where there is a device") {
  int version = 0;
  ok(cudaDriverGetVersion(&version));
  CHECK(version >= 12000);
}

// cudaGetDeviceProperties: "totalGlobalMem is the total amount of global memory available on the device in bytes",
// "asyncEngineCount is 1 when the device can concurrently copy memory between host and device while executing a kernel.
// It is 2 when the device can concurrently copy memory between host and device in both directions and execute a kernel
// at the same time", "unifiedAddressing is 1 if the device shares a unified address space with the host".
TEST_CASE("the properties of a device") {
  cudaDeviceProp facts{};
  ok(cudaGetDeviceProperties(&facts, 0));
  CHECK(facts.name[0] != '\0');
  CHECK(facts.major >= 7);
  CHECK(facts.asyncEngineCount >= 1);
  CHECK(facts.unifiedAddressing == 1);
  std::size_t free = 0;
  std::size_t total = 0;
  ok(cudaMemGetInfo(&free, &total));
  CHECK(free <= total);
  usually(facts.totalGlobalMem == total);
  CHECK(cudaGetDeviceProperties(&facts, -1) == cudaErrorInvalidDevice);
  static_cast<void>(cudaGetLastError());
}

// cudaDeviceGetAttribute: "Returns in *value the integer value of the attribute attr on device device."
// cudaDeviceAttr: "cudaDevAttrHostNumaId: NUMA ID of the host node closest to the device. Returns -1 when system does
// not support NUMA."
TEST_CASE("attributes of a device") {
  cudaDeviceProp facts{};
  ok(cudaGetDeviceProperties(&facts, 0));
  int number = 0;
  ok(cudaDeviceGetAttribute(&number, cudaDevAttrMultiProcessorCount, 0));
  CHECK(number == facts.multiProcessorCount);
  ok(cudaDeviceGetAttribute(&number, cudaDevAttrHostNumaId, 0));
  CHECK(number >= -1);
  CHECK(cudaDeviceGetAttribute(&number, cudaDevAttrHostNumaId, -1) == cudaErrorInvalidDevice);
  static_cast<void>(cudaGetLastError());
}

// cudaStreamCreate: "Creates a new asynchronous stream", one that synchronises with the legacy default stream, as with
// cudaStreamCreateWithFlags and "cudaStreamDefault: Default stream creation flag".
TEST_CASE("a plain stream synchronises with the legacy default stream") {
  const device_ints x(2);
  cudaStream_t s = nullptr;
  ok(cudaStreamCreate(&s));
  unsigned flags = 9;
  ok(cudaStreamGetFlags(s, &flags));
  CHECK(flags == cudaStreamDefault);
  slow_write(s, x, 3);
  read(nullptr, x.at(1), x);
  CHECK(value(x.at(1)) == 3);
  ok(cudaStreamDestroy(s));
}

// api sync, memset: "The synchronous memset functions are asynchronous with respect to the host except when the target
// memory is pinned host memory or a Unified Memory region […] The Async versions are always asynchronous with respect
// to the host."
TEST_CASE("an asynchronous memset is in its place in the stream") {
  const device_ints x(3);
  const stream s;
  slow_write(s, x, 1);
  ok(cudaMemsetAsync(x, 0x11, sizeof(int), s));
  usually(cudaStreamQuery(s) == cudaErrorNotReady);
  read(s, x.at(1), x);
  ok(cudaMemsetAsync(x, 0, sizeof(int), s));
  read(s, x.at(2), x);
  ok(cudaStreamSynchronize(s));
  CHECK(value(x.at(1)) == 0x11111111);
  CHECK(value(x.at(2)) == 0);
}

// cudaHostAlloc: "cudaHostAllocPortable: The memory returned by this call will be considered as pinned memory by all
// CUDA contexts, not just the one that performed the allocation." cudaPointerAttributes: "cudaMemoryTypeHost = 1".
TEST_CASE("memory of cudaHostAlloc is pinned") {
  const device_ints x(1);
  const stream s;
  void* p = nullptr;
  ok(cudaHostAlloc(&p, 2 * sizeof(int), cudaHostAllocPortable));
  cudaPointerAttributes about{};
  ok(cudaPointerGetAttributes(&about, p));
  CHECK(about.type == cudaMemoryTypeHost);
  CHECK(about.hostPointer == p);
  int* const h = static_cast<int*>(p);
  h[0] = 6;
  h[1] = 0;
  ok(cudaMemcpyAsync(x, h, sizeof(int), cudaMemcpyHostToDevice, s));
  ok(cudaMemcpyAsync(h + 1, x, sizeof(int), cudaMemcpyDeviceToHost, s));
  ok(cudaStreamSynchronize(s));
  CHECK(h[1] == 6);
  ok(cudaFreeHost(p));
}
