// Calls that fail, waits that do not happen, operations that take longer.

#include <hostoffload/virtual_gpu/faults.hpp>

#include <algorithm>
#include <stdexcept>

#include "support.hpp"

namespace {

std::uint64_t id_of(cudaStream_t s) {
  unsigned long long id = 0;
  ok(cudaStreamGetId(s, &id));
  return id;
}

}  // namespace

TEST_CASE("the n-th call fails, does nothing and is named") {
  gpu g;
  const auto before = vg::calls_until_now();
  vg::fail_call(3, cudaErrorMemoryAllocation);
  void* p[3] = {};
  ok(cudaMalloc(&p[0], 256));
  ok(cudaGetLastError());     // does not count
  ok(cudaPeekAtLastError());  // nor does this
  ok(cudaMalloc(&p[1], 256));
  CHECK_FALSE(vg::failed_call());
  CHECK(vg::calls_until_now() == before + 2);

  int device = 7;
  CHECK(cudaGetDevice(&device) == cudaErrorMemoryAllocation);
  CHECK(device == 7);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  REQUIRE(vg::failed_call());
  CHECK(vg::failed_call()->function == "cudaGetDevice");
  CHECK(vg::failed_call()->code == cudaErrorMemoryAllocation);
  CHECK(vg::calls("cudaGetDevice") == 1);
  CHECK(vg::calls_until_now() == before + 3);

  ok(cudaMalloc(&p[2], 256));  // only that one
  for (auto* x : p) ok(cudaFree(x));
  CHECK(vg::leaks().empty());
}

TEST_CASE("only calls of one function count") {
  gpu g;
  auto* s = g.stream();
  vg::fail_call(2, cudaErrorLaunchOutOfResources, "hostoffload_launch");
  int ran = 0;
  const auto count = [&ran] { ++ran; };
  ok(launch(s, "a", {}, {}, {}, count));
  ok(cudaStreamSynchronize(s));
  CHECK(launch(s, "b", {}, {}, {}, count) == cudaErrorLaunchOutOfResources);
  ok(launch(s, "c", {}, {}, {}, count));
  ok(cudaStreamSynchronize(s));
  CHECK(ran == 2);
  CHECK(vg::failed_call()->function == "hostoffload_launch");
  vg::clear_faults();
  CHECK_FALSE(vg::failed_call());
  CHECK_THROWS_AS(vg::fail_call(0, cudaErrorUnknown), std::invalid_argument);
  CHECK_THROWS_AS(vg::fail_call(1, cudaSuccess), std::invalid_argument);
}

TEST_CASE("a failed free or destruction leaves what it should have freed") {
  gpu g;
  void* p = nullptr;
  ok(cudaMalloc(&p, 256));
  cudaEvent_t e = nullptr;
  ok(cudaEventCreate(&e));
  vg::fail_call(1, cudaErrorUnknown, "cudaFree");
  CHECK(cudaFree(p) == cudaErrorUnknown);
  vg::fail_call(1, cudaErrorUnknown, "cudaEventDestroy");
  CHECK(cudaEventDestroy(e) == cudaErrorUnknown);
  CHECK(vg::leaks().size() == 2);
  ok(cudaFree(p));
  ok(cudaEventDestroy(e));
  CHECK(vg::leaks().empty());
}

TEST_CASE("a sticky error ends the device and what it had to do") {
  gpu g(round_numbers(), 2);
  auto* s = g.stream();
  auto* e = g.event();
  auto* d = g.filled(256);
  auto* h = g.pinned(256);
  h[0] = std::byte{1};
  bool ran = false;
  ok(launch(s, "k", {}, {}, {.flops = 1e6}, [&ran] { ran = true; }));
  ok(cudaMemcpyAsync(h, d, 256, cudaMemcpyDeviceToHost, s));
  ok(cudaEventRecord(e, s));
  CHECK_FALSE(vg::leaks().empty());

  vg::fail_call(1, cudaErrorIllegalAddress);
  CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 256) == cudaErrorIllegalAddress);
  CHECK(cudaFree(d) == cudaErrorIllegalAddress);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaPeekAtLastError() == cudaErrorIllegalAddress);
  CHECK(vg::failed_call()->function == "cudaStreamSynchronize");
  CHECK(vg::leaks().empty());

  // The other device goes on, but not with what belongs to the first.
  int device = -1;
  ok(cudaSetDevice(1));
  ok(cudaGetDevice(&device));
  CHECK(device == 1);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);  // of the thread
  CHECK(cudaGetLastError() == cudaSuccess);
  ok(cudaMalloc(&p, 256));
  CHECK(cudaEventQuery(e) == cudaErrorIllegalAddress);
  CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
  CHECK(cudaFree(d) == cudaErrorIllegalAddress);
  vg::host_works(1);
  ok(cudaDeviceSynchronize());
  CHECK_FALSE(ran);
  CHECK(h[0] == std::byte{1});
  CHECK(vg::leaks().size() == 1);
  ok(cudaFree(p));

  ok(cudaSetDevice(0));
  ok(cudaDeviceReset());
  ok(cudaMalloc(&p, 256));
  ok(cudaFree(p));
  CHECK(cudaStreamSynchronize(s) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("reset() forgets a sticky error and all faults") {
  gpu g;
  vg::fail_call(1, cudaErrorECCUncorrectable);
  CHECK(cudaDeviceSynchronize() == cudaErrorECCUncorrectable);
  vg::fail_call(1, cudaErrorUnknown);
  vg::delay("k", 1);
  vg::watch_waits();
  vg::reset(round_numbers());
  ok(cudaDeviceSynchronize());
  CHECK_FALSE(vg::failed_call());
  CHECK(vg::calls_until_now() == 1);
  ok(launch(nullptr, "k", {}, {}));
  ok(cudaDeviceSynchronize());
  CHECK(vg::now() == us(1));
}

TEST_CASE("which errors a function can return") {
  using codes = std::vector<cudaError_t>;
  CHECK(vg::plausible_errors("cudaMalloc") == codes{cudaErrorMemoryAllocation, cudaErrorIllegalAddress});
  CHECK(vg::plausible_errors("cudaEventCreateWithFlags") == codes{cudaErrorMemoryAllocation, cudaErrorIllegalAddress});
  CHECK(vg::plausible_errors("cudaMemcpyAsync") == codes{cudaErrorIllegalAddress});
  CHECK(vg::plausible_errors("cudaFree") == codes{cudaErrorIllegalAddress});
  CHECK(vg::plausible_errors("hostoffload_launch") == codes{cudaErrorLaunchOutOfResources, cudaErrorIllegalAddress});
  CHECK(vg::plausible_errors("cudaGetDevice").empty());
  CHECK(vg::is_sticky(cudaErrorLaunchFailure));
  CHECK(vg::is_sticky(cudaErrorECCUncorrectable));
  CHECK_FALSE(vg::is_sticky(cudaErrorMemoryAllocation));
  CHECK_FALSE(vg::is_sticky(cudaErrorLaunchOutOfResources));
}

TEST_CASE("an ignored wait orders nothing, and the detector sees it") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* e = g.event();
  auto* x = g.filled(256);
  const auto step = [&] {
    ok(launch(a, "write", {}, {{x, 256}}, {.flops = 9e6}));
    ok(cudaEventRecord(e, a));
    ok(cudaStreamWaitEvent(b, e, 0));
    ok(launch(b, "read", {{x, 256}}, {}, {.flops = 1e6}));
    ok(cudaEventRecord(e, b));
    ok(cudaStreamWaitEvent(a, e, 0));
  };
  step();
  ok(cudaDeviceSynchronize());
  REQUIRE(silent());

  SECTION("the third") {
    vg::ignore_wait(3);
    step();
    CHECK(silent());
    const double zero = vg::now();
    ok(cudaDeviceSynchronize());
    step();
    ok(cudaDeviceSynchronize());
    CHECK(found(vg::finding_kind::race) == 1);
    const auto seen = vg::waits();
    REQUIRE(seen.size() == 4);
    CHECK(seen[0].stream == id_of(b));
    CHECK(seen[0].event_stream == id_of(a));
    CHECK(seen[1].stream == id_of(a));
    CHECK_FALSE(seen[1].ignored);
    CHECK(seen[2].ignored);
    CHECK_FALSE(seen[2].implied);
    CHECK_FALSE(seen[2].implied_later);
    CHECK(seen[0].call < seen[1].call);
    // Not in time either: the second step's kernels start together.
    const auto write = completed("write", 2, zero);
    CHECK(completed("read", 2, zero).start == Approx(write.start).margin(1e-12));
  }
  SECTION("a role") {
    vg::ignore_waits(id_of(a), id_of(b));
    step();
    step();
    CHECK(found(vg::finding_kind::race) == 1);
    const auto seen = vg::waits();
    REQUIRE(seen.size() == 4);
    CHECK(seen[0].ignored);
    CHECK_FALSE(seen[1].ignored);
    CHECK(seen[2].ignored);
    CHECK_FALSE(seen[3].ignored);
  }
}

TEST_CASE("whether a wait was implied") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* c = g.stream(cudaStreamDefault);
  auto* e = g.event();
  auto* f = g.event();
  vg::watch_waits();
  const auto implied = [](cudaStream_t s, cudaEvent_t waited) {
    ok(cudaStreamWaitEvent(s, waited, 0));
    return vg::waits().back().implied;
  };
  ok(cudaStreamWaitEvent(b, e, 0));  // never recorded: no wait
  CHECK(vg::waits().empty());

  ok(launch(a, "k", {}, {}));
  ok(cudaEventRecord(e, a));
  CHECK(implied(a, e));  // its own stream
  CHECK_FALSE(implied(b, e));
  CHECK(implied(b, e));  // an earlier wait
  ok(cudaEventRecord(f, a));
  CHECK_FALSE(implied(b, f));  // stream a waited itself in between
  ok(cudaEventRecord(e, a));
  CHECK(implied(b, e));  // nothing new in the stream but the record
  ok(launch(a, "k", {}, {}));
  ok(cudaEventRecord(e, a));
  CHECK_FALSE(implied(b, e));

  ok(cudaEventRecord(f, b));
  CHECK_FALSE(implied(c, f));
  CHECK(implied(c, e));  // through b

  ok(launch(nullptr, "default", {}, {}));
  ok(cudaEventRecord(e, nullptr));
  CHECK(implied(c, e));  // a blocking stream
  CHECK_FALSE(implied(a, e));

  ok(launch(c, "k", {}, {}));
  ok(cudaEventRecord(e, c));
  CHECK(implied(nullptr, e));  // the default stream waits for blocking streams

  CHECK_FALSE(implied(a, e));
  ok(launch(nullptr, "default", {}, {}));
  ok(cudaEventRecord(e, c));
  CHECK_FALSE(implied(a, e));  // the record made its stream wait for the default stream

  ok(launch(a, "k", {}, {}));
  ok(cudaEventRecord(e, a));
  ok(cudaEventSynchronize(e));
  CHECK(implied(b, e));  // the host knows
}

TEST_CASE("whether an ignored wait was implied later") {
  gpu g;
  cudaStream_t a = nullptr;
  ok(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  auto* b = g.stream();
  auto* e = g.event();
  auto* f = g.event();
  ok(launch(b, "first", {}, {}));
  ok(cudaEventRecord(e, b));
  ok(launch(b, "second", {}, {}));
  ok(cudaEventRecord(f, b));
  vg::ignore_wait(1);
  ok(cudaStreamWaitEvent(a, e, 0));
  CHECK_FALSE(vg::waits().at(0).implied_later);
  SECTION("by nothing; what the host learns is too late") {
    ok(cudaDeviceSynchronize());
    CHECK_FALSE(vg::waits().at(0).implied_later);
    ok(cudaStreamDestroy(a));
    CHECK_FALSE(vg::waits().at(0).implied_later);
  }
  SECTION("by a later wait") {
    ok(cudaStreamWaitEvent(a, f, 0));
    CHECK(vg::waits().at(0).implied_later);
    CHECK_FALSE(vg::waits().at(1).implied_later);  // not an ignored one
    ok(cudaStreamDestroy(a));
    CHECK(vg::waits().at(0).implied_later);
  }
  SECTION("because the host waited in between") {
    ok(cudaDeviceSynchronize());
    ok(launch(a, "third", {}, {}));
    CHECK(vg::waits().at(0).implied_later);
    ok(cudaStreamDestroy(a));
  }
  CHECK_THROWS_AS(vg::ignore_wait(0), std::invalid_argument);
}

TEST_CASE("delayed operations take longer and hold what they use") {
  gpu g;
  auto* s = g.stream();
  auto* t = g.stream();
  auto* e = g.event(cudaEventDefault);
  auto* d = g.filled(1'000'000);
  auto* h = g.pinned(1'000'000);
  vg::delay("slow", 5 * micro);
  vg::delay(vg::operation_kind::kernel, 2 * micro);
  vg::delay(vg::operation_kind::copy_to_host, 10 * micro);
  vg::delay(vg::operation_kind::record, 1 * micro);
  CHECK_THROWS_AS(vg::delay("x", -1.0), std::invalid_argument);
  const double zero = vg::now();
  ok(launch(s, "a slow one", {}, {}, {.flops = 3e6}));                     // 1 + 3 + 5 + 2
  ok(launch(s, "quick", {}, {}, {.flops = 3e6}));                          // 1 + 3 + 2
  ok(cudaEventRecord(e, s));                                               // 1
  ok(cudaMemcpyAsync(h, d, 800'000, cudaMemcpyDeviceToHost, t));           // 7 + 10 + 10
  ok(cudaMemcpyAsync(h, d, 800'000, cudaMemcpyDeviceToHost, g.stream()));  // 2 + 10 + 10, one engine
  ok(cudaDeviceSynchronize());
  CHECK(completed("a slow one", 0, zero).end == us(11));
  CHECK(completed("quick", 0, zero).end == us(17));
  CHECK(completed("event record", 0, zero).end == us(18));
  CHECK(completed("copy to host", 0, zero).end == us(27));
  CHECK(completed("copy to host", 1, zero).end == us(49));
}
