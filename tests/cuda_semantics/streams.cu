// Order within and between streams, events, default streams, host functions, priorities.
// Quotations: CUDA Runtime API reference; "sync" stands for its section "Stream synchronization behavior".

#include <thread>

#include "support.hpp"

using namespace semantics;

// cudaStream_t: "CUDA stream". Programming Guide, Streams: "A stream is a sequence of commands […] that execute in
// order."
TEST_CASE("a stream executes in order") {
  const device_ints x(2);
  const stream s;
  slow_write(s, x, 1);
  read(s, x.at(1), x);
  write(s, x, 2);
  CHECK(value(x.at(1)) == 1);
  CHECK(value(x) == 2);
}

// Programming Guide, Streams: "Different streams, on the other hand, may execute their commands out of order with
// respect to one another or concurrently".
TEST_CASE("streams do not wait for one another") {
  const device_ints x(2);
  const stream a;
  const stream b;
  slow_write(a, x, 1);
  write(b, x.at(1), 2);
  ok(cudaStreamSynchronize(b));
  usually(cudaStreamQuery(a) == cudaErrorNotReady);
  CHECK(value(x) == 1);
  CHECK(value(x.at(1)) == 2);
}

// cudaStreamQuery: "Returns cudaSuccess if all operations in stream have completed, or cudaErrorNotReady if not."
TEST_CASE("a stream is asked, and waited for") {
  const device_ints x(1);
  const stream s;
  ok(cudaStreamQuery(s));
  slow_write(s, x, 1);
  usually(cudaStreamQuery(s) == cudaErrorNotReady);
  ok(cudaStreamSynchronize(s));
  ok(cudaStreamQuery(s));
}

// cudaStreamWaitEvent: "Makes all future work submitted to stream wait for all work captured in event."
TEST_CASE("a wait orders a stream behind another, and those behind it") {
  const device_ints x(2);
  const stream a;
  const stream b;
  const stream c;
  const event e;
  slow_write(a, x, 1);
  ok(cudaEventRecord(e, a));
  ok(cudaStreamWaitEvent(b, e, 0));
  ok(cudaEventRecord(e, b));
  ok(cudaStreamWaitEvent(c, e, 0));
  read(c, x.at(1), x);
  CHECK(value(x.at(1)) == 1);
}

// cudaEventRecord: "Uses of stream after this call do not modify event."
TEST_CASE("an event captures what was in the stream when it was recorded") {
  const device_ints x(2);
  const stream s;
  const event e;
  write(s, x, 1);
  ok(cudaEventRecord(e, s));
  slow_write(s, x.at(1), 2);
  ok(cudaEventSynchronize(e));
  usually(cudaStreamQuery(s) == cudaErrorNotReady);
  ok(cudaEventQuery(e));
}

// cudaEventRecord: "Other APIs such as cudaStreamWaitEvent() use the most recently captured state at the time of the
// API call, and are not affected by later calls to cudaEventRecord()."
TEST_CASE("a wait keeps to the record before it, a later wait to the later record") {
  const device_ints x(4);
  const stream a;
  const stream b;
  const stream c;
  const event e;
  slow_write(a, x, 1);
  ok(cudaEventRecord(e, a));
  ok(cudaStreamWaitEvent(b, e, 0));
  write(a, x.at(1), 2, 3 * slow_milliseconds);
  ok(cudaEventRecord(e, a));
  ok(cudaStreamWaitEvent(c, e, 0));
  read(b, x.at(2), x);
  read(c, x.at(3), x.at(1));
  ok(cudaStreamSynchronize(b));
  usually(cudaStreamQuery(a) == cudaErrorNotReady);
  CHECK(value(x.at(2)) == 1);
  CHECK(value(x.at(3)) == 2);
}

// cudaEventRecord: "can be called multiple times on the same event and will overwrite the previously captured state."
TEST_CASE("the host waits for the last record") {
  const device_ints x(2);
  const stream a;
  const stream b;
  const event e;
  slow_write(a, x, 1);
  ok(cudaEventRecord(e, a));
  write(b, x.at(1), 1, 3 * slow_milliseconds);
  ok(cudaEventRecord(e, b));
  ok(cudaEventSynchronize(e));
  ok(cudaStreamQuery(b));
}

// cudaEventRecord: "Before the first call to cudaEventRecord(), an event represents an empty set of work, so for
// example cudaEventQuery() would return cudaSuccess."
TEST_CASE("an event that was never recorded is complete") {
  const device_ints x(2);
  const stream a;
  const stream b;
  const event e;
  slow_write(a, x, 1);
  ok(cudaEventQuery(e));
  ok(cudaEventSynchronize(e));
  ok(cudaStreamWaitEvent(b, e, 0));
  write(b, x.at(1), 1);
  ok(cudaStreamSynchronize(b));
  usually(cudaStreamQuery(a) == cudaErrorNotReady);
}

// cudaEventDestroy: "An event may be destroyed before it is complete […] the call does not block on completion of the
// event".
TEST_CASE("an event may go while it is waited for") {
  const device_ints x(2);
  const stream a;
  const stream b;
  slow_write(a, x, 1);
  {
    const event e;
    ok(cudaEventRecord(e, a));
    ok(cudaStreamWaitEvent(b, e, 0));
  }
  usually(cudaStreamQuery(a) == cudaErrorNotReady);
  read(b, x.at(1), x);
  CHECK(value(x.at(1)) == 1);
}

// cudaStreamDestroy: "In case the device is still doing work in the stream […] the function will return immediately and
// the resources associated with stream will be released automatically once the device has completed all work".
TEST_CASE("a stream may go while it works") {
  const device_ints x(1);
  cudaStream_t s = nullptr;
  ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  slow_write(s, x, 1);
  ok(cudaStreamDestroy(s));
  CHECK(value(x) == 1);
}

// sync: "The resulting behavior is that k_2 will block on k_1 and k_3 will block on k_2."
TEST_CASE("the legacy default stream and a blocking stream wait for each other") {
  const device_ints x(3);
  const stream s(cudaStreamDefault);
  for (auto* legacy : {cudaStream_t{nullptr}, cudaStreamLegacy}) {
    ok(cudaMemset(x, 0, 3 * sizeof(int)));
    slow_write(s, x, 1);
    read(legacy, x.at(1), x);
    slow_write(legacy, x, 2);
    read(s, x.at(2), x);
    CHECK(value(x.at(1)) == 1);
    CHECK(value(x.at(2)) == 2);
  }
}

// sync: "When an action is taken in the legacy stream such as a kernel launch or cudaStreamWaitEvent(), the legacy
// stream first waits on all blocking streams, the action is queued in the legacy stream, and then all blocking streams
// wait on the legacy stream."
TEST_CASE("a wait in the legacy default stream holds for blocking streams") {
  const device_ints x(2);
  const stream other;
  const stream s(cudaStreamDefault);
  const event e;
  slow_write(other, x, 1);
  ok(cudaEventRecord(e, other));
  ok(cudaStreamWaitEvent(nullptr, e, 0));
  read(s, x.at(1), x);
  CHECK(value(x.at(1)) == 1);
}

// cudaStreamNonBlocking: "Specifies that work running in the created stream may run concurrently with work in stream 0
// (the NULL stream), and that the created stream should perform no implicit synchronization with stream 0."
TEST_CASE("a non-blocking stream and the legacy default stream do not wait for each other") {
  const device_ints x(2);
  const stream s;
  slow_write(nullptr, x, 1);
  write(s, x.at(1), 2);
  ok(cudaStreamSynchronize(s));
  usually(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  CHECK(value(x) == 1);
  slow_write(s, x, 3);
  write(nullptr, x.at(1), 4);
  ok(cudaStreamSynchronize(nullptr));
  usually(cudaStreamQuery(s) == cudaErrorNotReady);
  CHECK(value(x) == 3);
}

// sync: "The per-thread default stream is an implicit stream local to both the thread and the CUcontext, and which does
// not synchronize with other streams […]. The per-thread default stream is not a non-blocking stream and will
// synchronize with the legacy default stream if both are used in a program."
TEST_CASE("the default stream of a thread") {
  const device_ints x(4);
  const stream s(cudaStreamDefault);
  slow_write(s, x, 1);
  write(cudaStreamPerThread, x.at(1), 2);
  ok(cudaStreamSynchronize(cudaStreamPerThread));
  usually(cudaStreamQuery(s) == cudaErrorNotReady);

  slow_write(cudaStreamPerThread, x.at(1), 3);
  read(nullptr, x.at(2), x.at(1));
  slow_write(nullptr, x.at(1), 4);
  read(cudaStreamPerThread, x.at(3), x.at(1));
  CHECK(value(x.at(2)) == 3);
  CHECK(value(x.at(3)) == 4);

  unsigned flags = 9;
  ok(cudaStreamGetFlags(cudaStreamPerThread, &flags));
  CHECK(flags == cudaStreamDefault);
}

TEST_CASE("each thread has a default stream of its own") {
  unsigned long long here = 0;
  unsigned long long there = 0;
  cudaError_t error = cudaErrorUnknown;
  ok(cudaStreamGetId(cudaStreamPerThread, &here));
  std::thread([&] { error = cudaStreamGetId(cudaStreamPerThread, &there); }).join();
  ok(error);
  CHECK(here != there);
}

namespace {

struct copied {
  const int* from;
  int to = 0;
};
void copy(void* c) { static_cast<copied*>(c)->to = *static_cast<copied*>(c)->from; }
void set(void* to) { *static_cast<int*>(to) = 7; }

}  // namespace

// cudaLaunchHostFunc: "The function will be called after currently enqueued work and will block work added after it."
TEST_CASE("a host function runs in its place") {
  const device_ints x(2);
  const pinned_ints h(2);
  const stream s;
  copied seen{h};
  slow_write(s, x, 5);
  ok(cudaMemcpyAsync(h, x, sizeof(int), cudaMemcpyDeviceToHost, s));
  ok(cudaLaunchHostFunc(s, copy, &seen));
  ok(cudaLaunchHostFunc(s, set, h + 1));
  ok(cudaMemcpyAsync(x.at(1), h + 1, sizeof(int), cudaMemcpyHostToDevice, s));
  ok(cudaStreamSynchronize(s));
  CHECK(seen.to == 5);
  CHECK(value(x.at(1)) == 7);
}

// cudaStreamCreateWithPriority: "lower numbers represent higher priorities. '0' represents default priority." "If the
// specified priority is outside the numerical range […], it will automatically be clamped".
TEST_CASE("priorities") {
  int least = 1;
  int greatest = 1;
  ok(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(greatest <= least);
  const auto given = [](int priority) {
    cudaStream_t s = nullptr;
    ok(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, priority));
    int got = 99;
    ok(cudaStreamGetPriority(s, &got));
    ok(cudaStreamDestroy(s));
    return got;
  };
  for (int p = greatest; p <= least; ++p) CHECK(given(p) == p);
  CHECK(given(greatest - 100) == greatest);
  CHECK(given(least + 100) == least);
  const stream s;
  int usual = 99;
  ok(cudaStreamGetPriority(s, &usual));
  CHECK(usual == 0);
}

// cudaEventElapsedTime: "in milliseconds with a resolution of around 0.5 microseconds"
TEST_CASE("events measure time") {
  const device_ints x(1);
  const stream s;
  const event start(cudaEventDefault);
  const event end(cudaEventDefault);
  ok(cudaEventRecord(start, s));
  slow_write(s, x, 1);
  ok(cudaEventRecord(end, s));
  ok(cudaEventSynchronize(end));
  float ms = 0;
  ok(cudaEventElapsedTime(&ms, start, end));
  CHECK(ms > 0.25F * slow_milliseconds);
  CHECK(ms < 1000.0F * slow_milliseconds);
  ok(cudaEventElapsedTime(&ms, start, start));
  CHECK(ms == 0);
}

// cudaEventElapsedTime: "If cudaEventRecord() has not been called on either event, then cudaErrorInvalidResourceHandle
// is returned. If […] one or both of them has not yet been completed […], cudaErrorNotReady is returned. If either
// event was created with the cudaEventDisableTiming flag, then this function will return
// cudaErrorInvalidResourceHandle."
TEST_CASE("when events have no time to tell") {
  const device_ints x(1);
  const stream s;
  const event start(cudaEventDefault);
  const event end(cudaEventDefault);
  const event silent(cudaEventDisableTiming);
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, start, end) == cudaErrorInvalidResourceHandle);
  ok(cudaEventRecord(start, s));
  slow_write(s, x, 1);
  ok(cudaEventRecord(end, s));
  usually(cudaEventElapsedTime(&ms, start, end) == cudaErrorNotReady);
  ok(cudaEventRecord(silent, s));
  ok(cudaStreamSynchronize(s));
  CHECK(cudaEventElapsedTime(&ms, start, silent) == cudaErrorInvalidResourceHandle);
  static_cast<void>(cudaGetLastError());
}
