// Stream capture and graphs.
// Quotations: CUDA Runtime API reference; "errors" stands for its cudaError enumerators, "guide" for the CUDA
// Programming Guide, sections "Creating a Graph Using Stream Capture" and "Prohibited and Unhandled Operations".

#include <thread>
#include <vector>

#include "support.hpp"

using namespace semantics;

namespace {

class graph {
public:
  graph() = default;
  explicit graph(cudaGraph_t g) : graph_(g) {}
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;
  ~graph() {
    static_cast<void>(cudaDeviceSynchronize());
    if (exec_ != nullptr) static_cast<void>(cudaGraphExecDestroy(exec_));
    if (graph_ != nullptr) static_cast<void>(cudaGraphDestroy(graph_));
  }
  cudaGraph_t* place() { return &graph_; }
  [[nodiscard]] cudaGraph_t get() const { return graph_; }
  cudaGraphExec_t exec() {
    if (exec_ == nullptr) ok(cudaGraphInstantiate(&exec_, graph_, 0));
    return exec_;
  }
  void launch(cudaStream_t s) { ok(cudaGraphLaunch(exec(), s)); }
  [[nodiscard]] std::size_t nodes() const {
    std::size_t n = 0;
    ok(cudaGraphGetNodes(graph_, nullptr, &n));
    return n;
  }

private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

void begin(cudaStream_t s, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
  ok(cudaStreamBeginCapture(s, mode));
}
void end(cudaStream_t s, graph& g) { ok(cudaStreamEndCapture(s, g.place())); }

cudaStreamCaptureStatus status(cudaStream_t s) {
  auto seen = cudaStreamCaptureStatusNone;
  ok(cudaStreamIsCapturing(s, &seen));
  return seen;
}

// After something that a capture does not allow: the capture is invalid, its end says so and gives no graph, and then
// the stream works as before.
void was_invalidated(cudaStream_t s, int* x) {
  CHECK(status(s) == cudaStreamCaptureStatusInvalidated);
  auto* none = reinterpret_cast<cudaGraph_t>(x);
  CHECK(cudaStreamEndCapture(s, &none) == cudaErrorStreamCaptureInvalidated);
  CHECK(none == nullptr);
  static_cast<void>(cudaGetLastError());
  CHECK(status(s) == cudaStreamCaptureStatusNone);
  write(s, x, 77);
  CHECK(value(x) == 77);
}

void fork(cudaStream_t from, cudaStream_t to, cudaEvent_t e) {
  ok(cudaEventRecord(e, from));
  ok(cudaStreamWaitEvent(to, e, 0));
}

void add_one(void* to) { ++*static_cast<int*>(to); }

}  // namespace

// cudaStreamBeginCapture: "When a stream is in capture mode, all operations pushed into the stream will not be
// executed, but will instead be captured into a graph".
TEST_CASE("what is captured runs when the graph is launched, and each time again") {
  const device_ints x(3);
  const pinned_ints h(1);
  const stream s;
  graph g;
  int calls = 0;
  h[0] = 5;
  CHECK(status(s) == cudaStreamCaptureStatusNone);
  begin(s);
  CHECK(status(s) == cudaStreamCaptureStatusActive);
  ok(cudaMemcpyAsync(x, h, sizeof(int), cudaMemcpyHostToDevice, s));
  read(s, x.at(1), x);
  ok(cudaMemsetAsync(x.at(2), 0xff, sizeof(int), s));
  ok(cudaLaunchHostFunc(s, add_one, &calls));
  end(s, g);
  CHECK(status(s) == cudaStreamCaptureStatusNone);
  CHECK(value(x.at(1)) == 0);
  CHECK(calls == 0);

  g.launch(s);
  CHECK(value(x.at(1)) == 5);
  CHECK(value(x.at(2)) == -1);
  h[0] = 6;
  g.launch(s);
  CHECK(value(x.at(1)) == 6);
  CHECK(calls == 2);
}

// cudaGraphGetNodes: "nodes may be NULL, in which case this function will return the number of nodes"; "If numNodes is
// higher than the actual number of nodes, the remaining entries in nodes will be set to NULL".
TEST_CASE("the nodes of a graph") {
  const device_ints x(2);
  const pinned_ints h(1);
  const stream s;
  const event e;
  graph g;
  begin(s);
  ok(cudaMemcpyAsync(x, h, sizeof(int), cudaMemcpyHostToDevice, s));
  ok(cudaMemsetAsync(x.at(1), 0, sizeof(int), s));
  ok(cudaEventRecord(e, s));
  ok(cudaStreamWaitEvent(s, e, 0));
  end(s, g);
  CHECK(g.nodes() == 2);
  cudaGraphNode_t nodes[3] = {nullptr, nullptr, reinterpret_cast<cudaGraphNode_t>(&g)};
  std::size_t n = 3;
  ok(cudaGraphGetNodes(g.get(), nodes, &n));
  CHECK(n == 2);
  CHECK(nodes[2] == nullptr);
  int copies = 0;
  int sets = 0;
  for (std::size_t i = 0; i < n; ++i) {
    auto type = cudaGraphNodeTypeEmpty;
    ok(cudaGraphNodeGetType(nodes[i], &type));
    copies += type == cudaGraphNodeTypeMemcpy ? 1 : 0;
    sets += type == cudaGraphNodeTypeMemset ? 1 : 0;
  }
  CHECK(copies == 1);
  CHECK(sets == 1);
}

// cudaStreamGetCaptureInfo: "The next node to be captured in the stream will depend on this set of nodes".
TEST_CASE("what a stream's capture knows") {
  const device_ints x(2);
  const stream s;
  graph g;
  auto seen = cudaStreamCaptureStatusActive;
  ok(cudaStreamGetCaptureInfo(s, &seen));
  CHECK(seen == cudaStreamCaptureStatusNone);
  begin(s);
  unsigned long long id = 0;
  cudaGraph_t into = nullptr;
  const cudaGraphNode_t* behind = nullptr;
  std::size_t count = 9;
  ok(cudaStreamGetCaptureInfo(s, &seen, &id, &into, &behind, nullptr, &count));
  CHECK(seen == cudaStreamCaptureStatusActive);
  CHECK(id != 0);
  CHECK(count == 0);
  write(s, x, 1);
  write(s, x.at(1), 2);
  ok(cudaStreamGetCaptureInfo(s, &seen, nullptr, nullptr, &behind, nullptr, &count));
  CHECK(count == 1);
  end(s, g);
  CHECK(g.get() == into);
}

// guide: "other streams may be captured by waiting on a captured event"; "the origin stream [must be joined]".
TEST_CASE("a fork and a join order the nodes of two streams") {
  const device_ints x(4);
  const stream a;
  const stream b;
  const event forked;
  const event joined;
  graph g;
  begin(a);
  slow_write(a, x, 1);
  fork(a, b, forked);
  CHECK(status(b) == cudaStreamCaptureStatusActive);
  read(b, x.at(1), x, slow_milliseconds);
  write(a, x.at(2), 2);
  fork(b, a, joined);
  read(a, x.at(3), x.at(1));
  end(a, g);
  CHECK(status(b) == cudaStreamCaptureStatusNone);
  CHECK(g.nodes() == 4);
  g.launch(a);
  CHECK(value(x.at(1)) == 1);
  CHECK(value(x.at(2)) == 2);
  CHECK(value(x.at(3)) == 1);
}

// cudaGraphLaunch: "Each launch is ordered behind both any previous work in stream and any previous launches of
// graphExec."
TEST_CASE("a launch is ordered behind its stream's work and behind earlier launches") {
  const device_ints x(3);
  const stream a;
  const stream b;
  graph g;
  begin(a);
  read(a, x.at(1), x, slow_milliseconds);
  write(a, x, 9);
  end(a, g);
  slow_write(a, x, 1);
  g.launch(a);
  read(a, x.at(2), x.at(1));
  g.launch(b);
  CHECK(value(x.at(2)) == 1);
  CHECK(value(x.at(1)) == 9);
}

// cudaGraphInstantiate makes a graph that stands for itself: cudaGraphDestroy "Destroys the graph specified by graph,
// as well as all of its nodes."
TEST_CASE("an executable graph outlives the graph that it was made from") {
  const device_ints x(1);
  const stream s;
  cudaGraph_t g = nullptr;
  cudaGraphExec_t exec = nullptr;
  begin(s);
  write(s, x, 4);
  ok(cudaStreamEndCapture(s, &g));
  ok(cudaGraphInstantiate(&exec, g, 0));
  ok(cudaGraphDestroy(g));
  ok(cudaGraphUpload(exec, s));
  ok(cudaGraphLaunch(exec, s));
  ok(cudaStreamSynchronize(s));
  ok(cudaGraphExecDestroy(exec));
  CHECK(value(x) == 4);
}

// cudaGraphExecUpdate: "Updates the node parameters in the instantiated graph […] with the node parameters in a
// topologically identical graph"; "cudaGraphExecUpdateErrorTopologyChanged […]: The count of nodes […] differ".
TEST_CASE("an executable graph takes over other parameters, not another shape") {
  const device_ints x(2);
  const stream s;
  const auto captured = [&](graph& g, int number, bool twice) {
    begin(s);
    ok(cudaMemsetAsync(x, number, sizeof(int), s));
    if (twice) ok(cudaMemsetAsync(x.at(1), number, sizeof(int), s));
    end(s, g);
  };
  graph one;
  graph other;
  graph two;
  captured(one, 1, false);
  captured(other, 2, false);
  captured(two, 3, true);
  cudaGraphExecUpdateResultInfo info{};
  ok(cudaGraphExecUpdate(one.exec(), other.get(), &info));
  CHECK(info.result == cudaGraphExecUpdateSuccess);
  CHECK(cudaGraphExecUpdate(one.exec(), two.get(), &info) == cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  static_cast<void>(cudaGetLastError());
  one.launch(s);
  CHECK(value(x) == 0x02020202);
}

// errors: cudaErrorStreamCaptureUnjoined "The capture sequence contains a fork that was not joined to the primary
// stream."
TEST_CASE("a fork that is not joined gives no graph") {
  const device_ints x(2);
  const stream a;
  const stream b;
  const event e;
  begin(a);
  write(a, x, 1);
  fork(a, b, e);
  write(b, x.at(1), 2);
  cudaGraph_t g = nullptr;
  CHECK(cudaStreamEndCapture(a, &g) == cudaErrorStreamCaptureUnjoined);
  CHECK(g == nullptr);
  static_cast<void>(cudaGetLastError());
  CHECK(status(a) == cudaStreamCaptureStatusNone);
  CHECK(status(b) == cudaStreamCaptureStatusNone);
}

// cudaStreamBeginCapture: "Capture must be ended on the same stream in which it was initiated". errors:
// cudaErrorStreamCaptureUnmatched "The capture was not initiated in this stream."
TEST_CASE("a capture ends where it began") {
  const device_ints x(1);
  const stream a;
  const stream b;
  const event e;
  begin(a);
  fork(a, b, e);
  cudaGraph_t g = nullptr;
  CHECK(cudaStreamEndCapture(b, &g) == cudaErrorStreamCaptureUnmatched);
  static_cast<void>(cudaGetLastError());
  static_cast<void>(cudaStreamEndCapture(a, &g));
  static_cast<void>(cudaGetLastError());
  CHECK(status(a) == cudaStreamCaptureStatusNone);
}

// cudaStreamBeginCapture: "Capture may not be initiated if stream is cudaStreamLegacy."; "it may only be initiated if
// the stream is not already in capture mode."
TEST_CASE("what cannot be captured") {
  const stream s;
  graph g;
  CHECK(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeRelaxed) != cudaSuccess);
  begin(s);
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) != cudaSuccess);
  static_cast<void>(cudaGetLastError());
  cudaGraph_t unused = nullptr;
  static_cast<void>(cudaStreamEndCapture(s, &unused));
  if (unused != nullptr) ok(cudaGraphDestroy(unused));
  static_cast<void>(cudaGetLastError());
}

// guide: "It is invalid to synchronize or query the execution status of a stream which is being captured or a captured
// event, because they do not represent items scheduled for execution. It is also invalid to query the execution status
// of or synchronize a broader handle which encompasses an active stream capture, such as a device".
TEST_CASE("asking or waiting for what is captured invalidates the capture") {
  const device_ints x(1);
  const stream s;
  const event e(cudaEventDefault);
  const std::vector<cudaError_t (*)(cudaStream_t, cudaEvent_t)> calls{
      [](cudaStream_t a, cudaEvent_t) { return cudaStreamSynchronize(a); },
      [](cudaStream_t a, cudaEvent_t) { return cudaStreamQuery(a); },
      [](cudaStream_t, cudaEvent_t b) { return cudaEventSynchronize(b); },
      [](cudaStream_t, cudaEvent_t b) { return cudaEventQuery(b); },
      [](cudaStream_t, cudaEvent_t) { return cudaDeviceSynchronize(); }};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(i);
    begin(s, cudaStreamCaptureModeRelaxed);
    write(s, x, 1);
    ok(cudaEventRecord(e, s));
    const cudaError_t error = calls[i](s, e);
    CHECK(error != cudaSuccess);
    CHECK(error != cudaErrorNotReady);
    was_invalidated(s, x);
  }
}

// errors: cudaErrorCapturedEvent "The operation is not permitted on an event which was last recorded in a capturing
// stream."
TEST_CASE("an event that a capture recorded measures no time, until it is recorded again") {
  const device_ints x(1);
  const stream s;
  const event from(cudaEventDefault);
  const event to(cudaEventDefault);
  graph g;
  begin(s, cudaStreamCaptureModeRelaxed);
  ok(cudaEventRecord(from, s));
  write(s, x, 1);
  ok(cudaEventRecord(to, s));
  end(s, g);
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, from, to) != cudaSuccess);
  static_cast<void>(cudaGetLastError());
  ok(cudaEventRecord(from, s));
  ok(cudaEventRecord(to, s));
  ok(cudaEventSynchronize(to));
  ok(cudaEventElapsedTime(&ms, from, to));
}

// cudaThreadExchangeStreamCaptureMode: "some actions, such as a call to cudaMalloc, may be unsafe"; "If the local
// thread has an ongoing capture sequence not initiated with cudaStreamCaptureModeRelaxed, it is prohibited from
// potentially unsafe API calls." errors: cudaErrorStreamCaptureUnsupported.
TEST_CASE("an allocation invalidates a capture of the same thread that is not relaxed") {
  const device_ints x(1);
  const stream s;
  void* p = nullptr;
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    begin(s, mode);
    CHECK(cudaMalloc(&p, 64) == cudaErrorStreamCaptureUnsupported);
    was_invalidated(s, x);
  }
  graph g;
  begin(s, cudaStreamCaptureModeRelaxed);
  ok(cudaMalloc(&p, 64));
  end(s, g);
  ok(cudaFree(p));

  graph of_thread;
  auto mode = cudaStreamCaptureModeRelaxed;
  begin(s);
  ok(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeGlobal);
  ok(cudaMalloc(&p, 64));
  ok(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeRelaxed);
  end(s, of_thread);
  ok(cudaFree(p));
}

// The same: "if any other thread has a concurrent capture sequence initiated with cudaStreamCaptureModeGlobal, this
// thread is prohibited from potentially unsafe API calls"; ThreadLocal: "Concurrent capture sequences in other threads
// are ignored."
TEST_CASE("an allocation on another thread invalidates a global capture and no other") {
  const device_ints x(1);
  const stream s;
  const auto elsewhere = [] {
    cudaError_t error = cudaSuccess;
    std::thread([&error] {
      void* p = nullptr;
      error = cudaMalloc(&p, 64);
      if (error == cudaSuccess) error = cudaFree(p);
    }).join();
    return error;
  };
  begin(s, cudaStreamCaptureModeGlobal);
  CHECK(elsewhere() == cudaErrorStreamCaptureUnsupported);
  was_invalidated(s, x);
  graph g;
  begin(s, cudaStreamCaptureModeThreadLocal);
  ok(elsewhere());
  end(s, g);
}

// cudaStreamEndCapture: "If the mode argument to cudaStreamBeginCapture was not cudaStreamCaptureModeRelaxed, this call
// must be from the same thread". errors: cudaErrorStreamCaptureWrongThread.
TEST_CASE("a capture ends on the thread where it began, unless it is relaxed") {
  const stream s;
  const auto elsewhere = [&s](graph& g) {
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = cudaStreamEndCapture(s, g.place()); }).join();
    return error;
  };
  graph none;
  graph strict;
  graph relaxed;
  begin(s);
  CHECK(elsewhere(none) == cudaErrorStreamCaptureWrongThread);
  end(s, strict);
  begin(s, cudaStreamCaptureModeRelaxed);
  ok(elsewhere(relaxed));
}

// guide: "When any stream in the same context is being captured, and it was not created with cudaStreamNonBlocking, any
// attempted use of the legacy stream is invalid." "It is therefore also invalid to call synchronous APIs in this case."
// errors: cudaErrorStreamCaptureImplicit. cudaStreamIsCapturing: "The blocking stream capture is not invalidated."
TEST_CASE("the legacy default stream during the capture of a blocking stream") {
  const device_ints x(2);
  const stream s(cudaStreamDefault);
  const stream apart;
  begin(s, cudaStreamCaptureModeRelaxed);
  auto seen = cudaStreamCaptureStatusNone;
  CHECK(cudaStreamIsCapturing(cudaStreamLegacy, &seen) == cudaErrorStreamCaptureImplicit);
  static_cast<void>(cudaGetLastError());
  CHECK(status(s) == cudaStreamCaptureStatusActive);
  CHECK(cudaMemsetAsync(x, 0, sizeof(int), nullptr) == cudaErrorStreamCaptureImplicit);
  was_invalidated(s, x);
  begin(s, cudaStreamCaptureModeRelaxed);
  CHECK(cudaMemset(x, 0, sizeof(int)) == cudaErrorStreamCaptureImplicit);
  was_invalidated(s, x);

  graph g;
  begin(apart, cudaStreamCaptureModeRelaxed);
  ok(cudaMemsetAsync(x, 0, sizeof(int), nullptr));
  end(apart, g);
}

// guide: "It is invalid to wait on a non-captured event from a stream which is being captured". errors:
// cudaErrorStreamCaptureIsolation "A dependency would have been created which crosses the capture sequence boundary."
TEST_CASE("a captured stream waits for no event from before the capture") {
  const device_ints x(1);
  const stream a;
  const stream b;
  const event e;
  ok(cudaEventRecord(e, b));
  begin(a);
  CHECK(cudaStreamWaitEvent(a, e, 0) == cudaErrorStreamCaptureIsolation);
  was_invalidated(a, x);
}

// guide: "It is invalid to merge two separate capture graphs by waiting on a captured event from a stream which is
// being captured and is associated with a different capture graph". errors: cudaErrorStreamCaptureMerge.
TEST_CASE("two captures are not merged") {
  const device_ints x(2);
  const stream a;
  const stream b;
  const event e;
  begin(a);
  begin(b);
  write(a, x, 1);
  ok(cudaEventRecord(e, a));
  CHECK(cudaStreamWaitEvent(b, e, 0) == cudaErrorStreamCaptureMerge);
  static_cast<void>(cudaGetLastError());
  cudaGraph_t g = nullptr;
  static_cast<void>(cudaStreamEndCapture(a, &g));
  if (g != nullptr) ok(cudaGraphDestroy(g));
  static_cast<void>(cudaGetLastError());
  was_invalidated(b, x);
}

// guide: "When a capture graph is invalidated, further use of any streams which are being captured or captured events
// associated with the graph is invalid and will return an error, until stream capture is ended".
TEST_CASE("an invalid capture takes nothing more") {
  const device_ints x(1);
  const stream a;
  const stream b;
  const event e;
  begin(a, cudaStreamCaptureModeRelaxed);
  fork(a, b, e);
  CHECK(cudaStreamQuery(a) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaMemsetAsync(x, 0, sizeof(int), a) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaMemsetAsync(x, 0, sizeof(int), b) == cudaErrorStreamCaptureInvalidated);
  was_invalidated(a, x);
  CHECK(status(b) == cudaStreamCaptureStatusNone);
}
