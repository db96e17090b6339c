// Code compiled for one default stream per thread. Everything else of the program is not.

#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1

#include <string>
#include <thread>

#include "support.hpp"

namespace {

unsigned long long id_of(cudaStream_t s) {
  unsigned long long id = 0;
  ok(cudaStreamGetId(s, &id));
  return id;
}

void note(void* to) { *static_cast<std::string*>(to) += 'h'; }

}  // namespace

TEST_CASE("the null stream is the thread's own") {
  gpu g;
  CHECK(id_of(nullptr) == id_of(cudaStreamPerThread));
  CHECK(id_of(nullptr) != id_of(cudaStreamLegacy));
  unsigned long long other = 0;
  std::thread([&other] { other = id_of(nullptr); }).join();
  CHECK(other != id_of(nullptr));
}

TEST_CASE("every function that may use the default stream uses the thread's") {
  gpu g;
  auto* d = g.filled(1024);
  auto* h = g.pinned(1024);
  auto* e = g.event(cudaEventDefault);
  vg::clear_timeline();
  std::string ran;
  ok(cudaMemset(d, 1, 256));
  ok(cudaMemset2D(d, 64, 1, 32, 2));
  ok(cudaMemsetAsync(d, 1, 256));
  ok(cudaMemset2DAsync(d, 64, 1, 32, 2));
  ok(cudaMemcpy(h, d, 256, cudaMemcpyDeviceToHost));
  ok(cudaMemcpy2D(h, 64, d, 64, 32, 2, cudaMemcpyDeviceToHost));
  ok(cudaMemcpyAsync(h, d, 256, cudaMemcpyDeviceToHost));
  ok(cudaMemcpy2DAsync(h, 64, d, 64, 32, 2, cudaMemcpyDeviceToHost));
  ok(cudaEventRecord(e));
  ok(cudaEventRecordWithFlags(e));
  ok(cudaStreamWaitEvent(nullptr, e));
  void* p = nullptr;
  ok(cudaMallocAsync(&p, 256, nullptr));
  ok(cudaFreeAsync(p, nullptr));
  cudaMemPool_t pool = nullptr;
  ok(cudaDeviceGetDefaultMemPool(&pool, 0));
  ok(cudaMallocFromPoolAsync(&p, 256, pool, nullptr));
  ok(cudaFreeAsync(p, nullptr));
  ok(launch(nullptr, "k", {}, {}, {}, [&ran] { ran += 'k'; }));
  ok(cudaLaunchHostFunc(nullptr, note, &ran));
  std::size_t operations = 17;
#if CUDART_VERSION >= 13000
  void* to[] = {h};
  const void* from[] = {d};
  std::size_t bytes[] = {256};
  std::size_t first[] = {0};
  cudaMemcpyAttributes attributes[] = {{cudaMemcpySrcAccessOrderStream, {}, {}, 0}};
  ok(cudaMemcpyBatchAsync(to, from, bytes, 1, attributes, first, 1, nullptr));
  ++operations;
#endif
  CHECK(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  ok(cudaStreamSynchronize(nullptr));
  ok(cudaStreamQuery(nullptr));
  CHECK(ran == "kh");

  const auto done = vg::timeline();
  CHECK(done.size() == operations);
  for (const auto& op : done) {
    INFO(op.name);
    CHECK(op.stream == id_of(cudaStreamPerThread));
  }
  unsigned flags = 9;
  int number = 9;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  ok(cudaStreamGetFlags(nullptr, &flags));
  CHECK(flags == cudaStreamDefault);
  ok(cudaStreamGetPriority(nullptr, &number));
  CHECK(number == 0);
  ok(cudaStreamGetDevice(nullptr, &number));
  ok(cudaStreamIsCapturing(nullptr, &status));
  CHECK(status == cudaStreamCaptureStatusNone);
  CHECK(silent());
}

TEST_CASE("a capture of the null stream is one of the thread's, and a graph is launched into it") {
  gpu g;
  std::string ran;
  ok(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal));
  ok(launch(nullptr, "k", {}, {}, {}, [&ran] { ran += 'k'; }));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
#if CUDART_VERSION >= 13000
  ok(cudaStreamGetCaptureInfo(nullptr, &status));
  CHECK(status == cudaStreamCaptureStatusActive);
#endif
  ok(cudaStreamIsCapturing(cudaStreamPerThread, &status));
  CHECK(status == cudaStreamCaptureStatusActive);
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(nullptr, &graph));
  cudaGraphExec_t exec = nullptr;
  ok(cudaGraphInstantiate(&exec, graph, 0));
  ok(cudaGraphUpload(exec, nullptr));
  vg::clear_timeline();
  ok(cudaGraphLaunch(exec, nullptr));
  ok(cudaStreamSynchronize(nullptr));
  CHECK(ran == "k");
  for (const auto& op : vg::timeline()) {
    INFO(op.name);
    CHECK(op.stream == id_of(cudaStreamPerThread));
  }
  ok(cudaGraphExecDestroy(exec));
  ok(cudaGraphDestroy(graph));
  CHECK(silent());
}
