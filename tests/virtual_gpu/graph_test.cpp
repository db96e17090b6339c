// Graphs on the virtual GPU: what a launch costs, and that the race detector, faults and other orders of execution see
// through it. What CUDA says of graphs is in cuda_semantics.

#include <cstring>
#include <functional>
#include <string>

#include "hostoffload/virtual_gpu/faults.hpp"
#include "support.hpp"

namespace {

class launched {
public:
  explicit launched(cudaStream_t s, const std::function<void()>& work) : stream_(s) {
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    work();
    cudaGraph_t graph = nullptr;
    ok(cudaStreamEndCapture(s, &graph));
    ok(cudaGraphInstantiate(&exec_, graph, 0));
    ok(cudaGraphDestroy(graph));
  }
  launched(const launched&) = delete;
  launched& operator=(const launched&) = delete;
  ~launched() { static_cast<void>(cudaGraphExecDestroy(exec_)); }
  void launch() { ok(cudaGraphLaunch(exec_, stream_)); }

private:
  cudaStream_t stream_;
  cudaGraphExec_t exec_ = nullptr;
};

constexpr std::size_t megabyte = 1'000'000;

}  // namespace

TEST_CASE("branches of a graph overlap as streams do") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* forked = g.event();
  auto* joined = g.event();
  auto* to = g.filled(megabyte);
  auto* from = g.pinned(megabyte);
  launched graph(a, [&] {
    ok(cudaEventRecord(forked, a));
    ok(cudaStreamWaitEvent(b, forked, 0));
    ok(cudaMemcpyAsync(to, from, megabyte, cudaMemcpyHostToDevice, b));
    ok(launch(a, "beside", {}, {}, {20e6, 0}));
    ok(cudaEventRecord(joined, b));
    ok(cudaStreamWaitEvent(a, joined, 0));
    ok(launch(a, "behind", {{to, megabyte}}, {}, {1e6, 0}));
  });
  CHECK(vg::bytes_copied(vg::direction::to_device).copies == 0);
  for (int i = 0; i < 2; ++i) {
    vg::clear_timeline();
    const double zero = vg::now();
    graph.launch();
    ok(cudaStreamSynchronize(a));
    CHECK(completed("copy to device", 0, zero).end == us(17));  // 7 + 10
    CHECK(completed("beside", 0, zero).end == us(21));          // 1 + 20
    CHECK(completed("behind", 0, zero).end == us(23));
    CHECK(vg::bytes_copied(vg::direction::to_device).copies == static_cast<std::uint64_t>(i + 1));
  }
  CHECK(silent());
}

TEST_CASE("a launch costs the host its own time and a little for each node, not that of the calls") {
  vg::machine m = round_numbers();
  m.host.graph = 2 * micro;
  m.host.graph_node = 0.25 * micro;
  m.host.launch = 10 * micro;
  gpu g(m);
  auto* s = g.stream();
  launched graph(s, [&] {
    for (int i = 0; i < 4; ++i) ok(launch(s, "kernel", {}, {}));
  });
  const double before = vg::now();
  graph.launch();
  CHECK(vg::now() - before == us(3));
  ok(cudaStreamSynchronize(s));
}

TEST_CASE("the detector sees races within a launch, and with what runs beside it") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* forked = g.event();
  auto* joined = g.event();
  auto* x = g.filled(1024);
  SECTION("between branches that nothing orders") {
    launched graph(a, [&] {
      ok(launch(a, "first", {}, {}));
      ok(cudaEventRecord(forked, a));
      ok(cudaStreamWaitEvent(b, forked, 0));
      ok(launch(a, "writer", {}, {{x, 1024}}));
      ok(launch(b, "reader", {{x, 1024}}, {}));
      ok(cudaEventRecord(joined, b));
      ok(cudaStreamWaitEvent(a, joined, 0));
    });
    CHECK(silent());
    graph.launch();
    CHECK(found(vg::finding_kind::race) == 1);
    const std::string message = vg::findings().front().message;
    CHECK_THAT(message,
               Catch::Contains("\"writer\"") && Catch::Contains("\"reader\"") && Catch::Contains("stream 2 wait"));
  }
  SECTION("with another stream") {
    launched graph(a, [&] { ok(launch(a, "writer", {}, {{x, 1024}})); });
    ok(launch(b, "reader", {{x, 1024}}, {}));
    graph.launch();
    CHECK(found(vg::finding_kind::race) == 1);
  }
  SECTION("not where the stream that it is launched into is ordered") {
    launched graph(a, [&] { ok(launch(a, "writer", {}, {{x, 1024}})); });
    ok(launch(b, "reader", {{x, 1024}}, {}));
    ok(cudaEventRecord(forked, b));
    ok(cudaStreamWaitEvent(a, forked, 0));
    graph.launch();
    graph.launch();
    ok(cudaEventRecord(joined, a));
    ok(cudaStreamWaitEvent(b, joined, 0));
    ok(launch(b, "reader", {{x, 1024}}, {}));
    CHECK(silent());
  }
  SECTION("memory that is freed before a launch") {
    void* gone = nullptr;
    ok(cudaMalloc(&gone, 256));
    launched graph(a, [&] { ok(launch(a, "writer", {}, {{gone, 256}})); });
    ok(cudaFree(gone));
    graph.launch();
    CHECK(found(vg::finding_kind::use_after_free) == 1);
  }
  SECTION("a wait of the capture that is dropped") {
    vg::ignore_wait(2);
    ok(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    ok(launch(a, "first", {}, {}));
    ok(cudaEventRecord(forked, a));
    ok(cudaStreamWaitEvent(b, forked, 0));
    ok(launch(b, "other", {}, {}));
    ok(cudaEventRecord(joined, b));
    ok(cudaStreamWaitEvent(a, joined, 0));
    CHECK(vg::waits().size() == 2);
    CHECK(vg::waits().back().ignored);
    CHECK_FALSE(vg::waits().back().implied);
    cudaGraph_t none = nullptr;
    CHECK(cudaStreamEndCapture(a, &none) == cudaErrorStreamCaptureUnjoined);
  }
  ok(cudaDeviceSynchronize());
  vg::clear_findings();
}

TEST_CASE("a batch of copies in a capture is in no graph, and that is a finding") {
  gpu g;
  auto* s = g.stream();
  auto* to = g.filled(1024);
  auto* from = g.pinned(1024);
  std::memset(from, 7, 1024);
  launched graph(s, [&] {
    void* dsts[] = {to, to + 512};
    const void* srcs[] = {from, from + 512};
    const std::size_t sizes[] = {512, 512};
    std::size_t first = 0;
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    ok(cudaMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &first, 1, s));
  });
  CHECK(found(vg::finding_kind::lost_copy) == 1);
  graph.launch();
  ok(cudaStreamSynchronize(s));
  CHECK(vg::bytes_copied(vg::direction::to_device).copies == 0);
  vg::clear_findings();
}

TEST_CASE("nodes take effect in any order that the graph allows") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    gpu g;
    vg::execution_order(seed);
    auto* a = g.stream();
    auto* b = g.stream();
    auto* forked = g.event();
    auto* joined = g.event();
    auto* x = g.pinned(4);
    std::string order;
    launched graph(a, [&] {
      ok(launch(a, "1", {}, {{x, 1}}, {}, [&order] { order += '1'; }));
      ok(cudaEventRecord(forked, a));
      ok(cudaStreamWaitEvent(b, forked, 0));
      ok(launch(a, "2", {}, {{x + 1, 1}}, {}, [&order] { order += '2'; }));
      ok(launch(b, "3", {}, {{x + 2, 1}}, {}, [&order] { order += '3'; }));
      ok(cudaEventRecord(joined, b));
      ok(cudaStreamWaitEvent(a, joined, 0));
      ok(launch(a, "4", {}, {{x, 4}}, {}, [&order] { order += '4'; }));
    });
    graph.launch();
    graph.launch();
    ok(cudaStreamSynchronize(a));
    CHECK((order.substr(0, 4) == "1234" || order.substr(0, 4) == "1324"));
    CHECK((order.substr(4) == "1234" || order.substr(4) == "1324"));
    CHECK(silent());
  }
}

TEST_CASE("graphs that are not destroyed are leaks") {
  gpu g;
  auto* s = g.stream();
  ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(s, &graph));
  cudaGraphExec_t exec = nullptr;
  ok(cudaGraphInstantiate(&exec, graph, 0));
  const auto leaks = [] {
    std::string text;
    for (const auto& f : vg::leaks()) text += f.message + "\n";
    return text;
  };
  CHECK_THAT(leaks(), Catch::Contains("leak: graph") && Catch::Contains("leak: executable graph"));
  ok(cudaGraphDestroy(graph));
  ok(cudaGraphExecDestroy(exec));
  CHECK_THAT(leaks(), !Catch::Contains("graph"));
  CHECK(cudaGraphLaunch(exec, s) == cudaErrorInvalidValue);
  CHECK(cudaGraphDestroy(graph) == cudaErrorInvalidValue);
}

TEST_CASE("a reset of the device ends captures, and forgets graphs") {
  gpu g;
  auto* s = g.stream();
  ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(s, &graph));
  cudaGraphExec_t exec = nullptr;
  ok(cudaGraphInstantiate(&exec, graph, 0));
  ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
  ok(cudaDeviceReset());
  CHECK(cudaGraphExecDestroy(exec) == cudaErrorInvalidValue);
  CHECK(cudaGraphDestroy(graph) == cudaErrorInvalidValue);
  CHECK(vg::leaks().empty());
  cudaStream_t fresh = nullptr;  // a capture that is still open would refuse what follows
  ok(cudaStreamCreateWithFlags(&fresh, cudaStreamNonBlocking));
  ok(launch(fresh, "behind", {}, {}));
  ok(cudaDeviceSynchronize());
  ok(cudaStreamDestroy(fresh));
}

TEST_CASE("an update is refused at the first node of another kind") {
  gpu g;
  auto* s = g.stream();
  auto* to = g.filled(256);
  const auto captured = [&](bool kernel) {
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    ok(launch(s, "first", {}, {}));
    if (kernel) {
      ok(launch(s, "second", {}, {}));
    } else {
      ok(cudaMemsetAsync(to, 0, 256, s));
    }
    cudaGraph_t graph = nullptr;
    ok(cudaStreamEndCapture(s, &graph));
    return graph;
  };
  auto* with_kernel = captured(true);
  auto* with_memset = captured(false);
  cudaGraphExec_t exec = nullptr;
  ok(cudaGraphInstantiate(&exec, with_kernel, 0));
  cudaGraphExecUpdateResultInfo info{};
  CHECK(cudaGraphExecUpdate(exec, with_memset, &info) == cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorNodeTypeChanged);
  CHECK(info.errorNode != nullptr);
  ok(cudaGraphExecDestroy(exec));
  ok(cudaGraphDestroy(with_kernel));
  ok(cudaGraphDestroy(with_memset));
}

TEST_CASE("arguments of captures that are missing or out of range are invalid values") {
  gpu g;
  auto* s = g.stream();
  cudaStreamCaptureMode mode{};
  std::memset(&mode, 0x7f, sizeof mode);
  CHECK(cudaThreadExchangeStreamCaptureMode(nullptr) == cudaErrorInvalidValue);
  CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaErrorInvalidValue);
  CHECK(cudaStreamIsCapturing(s, nullptr) == cudaErrorInvalidValue);
#if CUDART_VERSION >= 13000
  CHECK(cudaStreamGetCaptureInfo(s, nullptr) == cudaErrorInvalidValue);
#endif
}

TEST_CASE("a copy of pageable memory would not be repeated by launches, and invalidates the capture") {
  gpu g;
  auto* s = g.stream();
  auto* to = g.filled(256);
  char from[256] = {};
  ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaMemcpyAsync(to, from, sizeof from, cudaMemcpyHostToDevice, s) == cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
}
