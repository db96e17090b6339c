// Streams, events, the legacy default stream and the error state.

#include <memory>

#include "support.hpp"

TEST_CASE("events: before a record, pending, complete") {
  gpu g;
  auto* s = g.stream();
  auto* e = g.event(cudaEventDefault);
  auto* f = g.event(cudaEventDefault);
  auto* untimed = g.event(cudaEventDisableTiming);
  float ms = -1;
  CHECK(cudaEventQuery(e) == cudaSuccess);  // "If cudaEventRecord() has not been called on event": cudaSuccess
  CHECK(cudaEventElapsedTime(&ms, e, f) == cudaErrorInvalidResourceHandle);
  ok(cudaEventRecord(e, s));
  ok(launch(s, "k", {}, {}, {.flops = 9e6}));
  ok(cudaEventRecordWithFlags(f, s, cudaEventRecordDefault));
  ok(cudaEventRecord(untimed, s));
  CHECK(cudaEventQuery(f) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
  CHECK(cudaEventElapsedTime(&ms, e, f) == cudaErrorNotReady);
  ok(cudaEventSynchronize(f));
  CHECK(cudaEventQuery(f) == cudaSuccess);
  CHECK(cudaStreamQuery(s) == cudaSuccess);
  ok(cudaEventElapsedTime(&ms, e, f));
  CHECK(ms == Approx(0.010));
  ok(cudaEventElapsedTime(&ms, f, e));
  CHECK(ms == Approx(-0.010));
  CHECK(cudaEventElapsedTime(&ms, e, untimed) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventCreateWithFlags(&untimed, 0x80) == cudaErrorInvalidValue);
  CHECK(silent());
}

TEST_CASE("an event is complete when the host's clock has reached it") {
  gpu g;
  auto* s = g.stream();
  auto* e = g.event();
  ok(launch(s, "k", {}, {}, {.flops = 9e6}));
  ok(cudaEventRecord(e, s));
  vg::host_works(9.9 * micro);
  CHECK(cudaEventQuery(e) == cudaErrorNotReady);
  vg::host_works(0.2 * micro);
  CHECK(cudaEventQuery(e) == cudaSuccess);
}

TEST_CASE("a wait keeps the record that it saw, whatever becomes of the event") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  std::vector<int> ran;
  const auto note = [&ran](int i) { return [&ran, i] { ran.push_back(i); }; };
  cudaEvent_t e = nullptr;
  ok(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));

  ok(launch(a, "first", {}, {}, {.flops = 10e6}, note(1)));
  ok(cudaEventRecord(e, a));
  ok(cudaStreamWaitEvent(b, e, 0));
  ok(launch(a, "second", {}, {}, {.flops = 50e6}, note(3)));
  SECTION("recorded again") { ok(cudaEventRecord(e, a)); }
  SECTION("destroyed") {
    ok(cudaEventDestroy(e));
    CHECK(cudaEventDestroy(e) == cudaErrorInvalidResourceHandle);
    e = nullptr;
  }
  ok(launch(b, "between", {}, {}, {.flops = 1e6}, note(2)));
  ok(cudaDeviceSynchronize());
  CHECK(ran == std::vector<int>{1, 2, 3});
  if (e != nullptr) ok(cudaEventDestroy(e));
}

TEST_CASE("a destroyed stream finishes its work") {
  gpu g;
  bool ran = false;
  cudaStream_t s = nullptr;
  ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  ok(launch(s, "last", {}, {}, {.flops = 10e6}, [&ran] { ran = true; }));
  ok(cudaStreamDestroy(s));
  CHECK_FALSE(ran);
  CHECK(cudaStreamSynchronize(s) == cudaErrorInvalidResourceHandle);
  CHECK(launch(s, "too late", {}, {}) == cudaErrorInvalidResourceHandle);
  ok(cudaDeviceSynchronize());
  CHECK(ran);
}

TEST_CASE("the legacy default stream waits for blocking streams, and they for it") {
  gpu g;
  auto* blocking = g.stream(cudaStreamDefault);
  auto* other = g.stream(cudaStreamNonBlocking);
  ok(cudaDeviceSynchronize());
  vg::clear_timeline();
  const double zero = vg::now();
  auto* d = g.filled(256);
  const double filled = vg::now() - zero;
  ok(launch(blocking, "k1", {}, {{d, 256}}, {.flops = 4e6}));
  ok(launch(nullptr, "k2", {}, {{d, 256}}, {.flops = 4e6}));
  ok(launch(blocking, "k3", {}, {{d, 256}}, {.flops = 4e6}));
  ok(launch(other, "alone", {}, {}));
  ok(cudaStreamSynchronize(blocking));
  // One after the other, though in different streams; the non-blocking stream's empty kernel runs at once.
  CHECK(completed("k1", 0, zero + filled).end == us(5));
  CHECK(completed("k2", 0, zero + filled).end == us(10));
  CHECK(completed("k3", 0, zero + filled).end == us(15));
  CHECK(completed("alone", 0, zero + filled).end == us(1));
  CHECK(completed("k2").stream == 0);
  CHECK(silent());  // the order is real, so there is no race

  ok(launch(nullptr, "k4", {}, {{d, 256}}));
  ok(launch(other, "k5", {}, {{d, 256}}));
  CHECK(found(vg::finding_kind::race) == 1);  // but a non-blocking stream is not in it
}

TEST_CASE("a destroyed blocking stream is still waited for by the legacy stream") {
  gpu g;
  cudaStream_t s = nullptr;
  ok(cudaStreamCreate(&s));
  auto* d = g.filled(256);
  ok(launch(s, "k1", {}, {{d, 256}}, {.flops = 4e6}));
  ok(cudaStreamDestroy(s));
  ok(launch(nullptr, "k2", {}, {{d, 256}}));
  ok(cudaDeviceSynchronize());
  CHECK(completed("k2").start == completed("k1").end);
  CHECK(silent());
}

TEST_CASE("asking the legacy stream asks the blocking streams too, and the host then knows what they did") {
  gpu g;
  auto* s = g.stream(cudaStreamDefault);
  auto* other = g.stream();
  auto* d = g.filled(256);
  auto* h = g.pinned(256);
  ok(launch(other, "beside", {}, {}, {.flops = 900e6}));
  ok(cudaMemcpyAsync(h, d, 256, cudaMemcpyDeviceToHost, s));
  CHECK(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  vg::host_works(100 * micro);
  ok(cudaStreamQuery(nullptr));
  CHECK(cudaStreamQuery(other) == cudaErrorNotReady);
  vg::host_reads(h, 256);
  CHECK(silent());
}

TEST_CASE("special handles") {
  gpu g;
  bool legacy = false;
  bool own = false;
  ok(launch(cudaStreamLegacy, "legacy", {}, {}, {}, [&] { legacy = true; }));
  ok(cudaStreamSynchronize(nullptr));
  CHECK(legacy);
  ok(launch(cudaStreamPerThread, "own", {}, {}, {}, [&] { own = true; }));
  ok(cudaStreamSynchronize(cudaStreamPerThread));
  CHECK(own);
  unsigned long long id = 1;
  ok(cudaStreamGetId(nullptr, &id));
  CHECK(id == 0);
  CHECK(cudaStreamDestroy(nullptr) == cudaErrorInvalidResourceHandle);
  CHECK(vg::leaks().empty());
}

TEST_CASE("what a stream says of itself") {
  gpu g(round_numbers(), 2);
  ok(cudaSetDevice(1));
  auto* s = g.stream(cudaStreamNonBlocking, -100);
  unsigned flags = 0;
  int priority = 0;
  int device = 0;
  ok(cudaStreamGetFlags(s, &flags));
  CHECK(flags == cudaStreamNonBlocking);
  int least = 0;
  int greatest = 0;
  ok(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  ok(cudaStreamGetPriority(s, &priority));
  CHECK(priority == greatest);  // clamped
  ok(cudaStreamGetDevice(s, &device));
  CHECK(device == 1);
  auto capturing = cudaStreamCaptureStatusActive;
  ok(cudaStreamIsCapturing(s, &capturing));
  CHECK(capturing == cudaStreamCaptureStatusNone);
  CHECK(cudaStreamCreateWithFlags(&s, 8) == cudaErrorInvalidValue);
}

TEST_CASE("an event of one device cannot be recorded on a stream of another, waiting across devices works") {
  gpu g(round_numbers(), 2);
  auto* s0 = g.stream();
  auto* e0 = g.event();
  ok(cudaSetDevice(1));
  auto* s1 = g.stream();
  CHECK(cudaEventRecord(e0, s1) == cudaErrorInvalidResourceHandle);
  CHECK(found(vg::finding_kind::bad_wait) == 1);
  std::vector<int> ran;
  ok(launch(s0, "k0", {}, {}, {.flops = 10e6}, [&] { ran.push_back(0); }));
  ok(cudaEventRecord(e0, s0));
  ok(cudaStreamWaitEvent(s1, e0, 0));
  ok(launch(s1, "k1", {}, {}, {}, [&] { ran.push_back(1); }));
  ok(cudaStreamSynchronize(s1));
  CHECK(ran == std::vector<int>{0, 1});
}

TEST_CASE("the last error stays until it is read") {
  gpu g;
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(cudaSetDevice(7) == cudaErrorInvalidDevice);
  auto* s = g.stream();  // success does not clear it
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
  ok(launch(s, "k", {}, {}));
  CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaErrorNotReady);
  CHECK(std::string_view(cudaGetErrorName(cudaErrorMemoryAllocation)) == "cudaErrorMemoryAllocation");
  CHECK(std::string_view(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
  CHECK(std::string_view(cudaGetErrorName(static_cast<cudaError_t>(1001))) == "unrecognized error code");
}

TEST_CASE("a kernel must not call CUDA functions") {
  gpu g;
  auto* s = g.stream();
  cudaError_t inner = cudaSuccess;
  bool inside = false;
  ok(launch(s, "k", {}, {}, {}, [&] {
    inner = cudaStreamSynchronize(s);
    inside = vg::inside();
  }));
  ok(cudaStreamSynchronize(s));
  CHECK(inner == cudaErrorNotPermitted);
  CHECK(inside);
  CHECK_FALSE(vg::inside());
}

TEST_CASE("closures are copied at the launch, run once and destroyed") {
  gpu g;
  auto* s = g.stream();
  const auto shared = std::make_shared<int>(0);
  ok(launch(s, "k", {}, {}, {}, [shared] { ++*shared; }));
  CHECK(shared.use_count() == 2);
  CHECK(*shared == 0);
  ok(cudaStreamSynchronize(s));
  CHECK(shared.use_count() == 1);
  CHECK(*shared == 1);
  ok(launch(s, "never run", {}, {}, {.flops = 1e12}, [shared] { ++*shared; }));
  vg::reset(round_numbers());
  CHECK(shared.use_count() == 1);
  CHECK(*shared == 1);
}

TEST_CASE("calls are counted") {
  gpu g;
  auto* s = g.stream();
  auto* e = g.event();
  auto* d = g.filled(1024);
  auto* h = g.pinned(1024);
  vg::reset_call_counts();
  for (int i = 0; i < 3; ++i) ok(cudaEventRecord(e, s));
  ok(cudaMemcpyAsync(h, d, 1000, cudaMemcpyDeviceToHost, s));
  ok(cudaMemcpyAsync(d, h, 100, cudaMemcpyHostToDevice, s));
  ok(cudaMemcpyAsync(d, h, 100, cudaMemcpyHostToDevice, s));
  CHECK(vg::calls("cudaEventRecord") == 3);
  CHECK(vg::calls("cudaMalloc") == 0);
  CHECK(vg::calls("no such function") == 0);
  CHECK(vg::call_counts().size() == 2);
  CHECK(vg::bytes_copied(vg::direction::to_host).bytes == 1000);
  CHECK(vg::bytes_copied(vg::direction::to_device).bytes == 200);
  CHECK(vg::bytes_copied(vg::direction::to_device).copies == 2);
  CHECK(vg::bytes_copied(vg::direction::on_device).copies == 0);
}
