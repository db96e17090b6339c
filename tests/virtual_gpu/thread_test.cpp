// Several host threads, each with streams of its own, on one machine.

#include <atomic>
#include <numeric>
#include <thread>

#include "support.hpp"

TEST_CASE("threads work side by side, each has its device, its clock and its last error") {
  gpu g(vg::gb200(), 2);
  constexpr int threads = 4;
  constexpr std::size_t n = 1000;
  std::atomic<int> right{0};
  std::atomic<int> finished{0};
  std::vector<std::thread> all;
  all.reserve(threads);
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([t, &right, &finished] {
      const auto good = [](cudaError_t e) { return e == cudaSuccess; };
      bool fine = good(cudaSetDevice(t % 2)) && cudaGetLastError() == cudaSuccess;
      cudaStream_t compute = nullptr;
      cudaStream_t copy = nullptr;
      cudaEvent_t made = nullptr;
      cudaEvent_t copied = nullptr;
      void* d = nullptr;
      void* h = nullptr;
      fine = fine && good(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking)) &&
             good(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking)) &&
             good(cudaEventCreateWithFlags(&made, cudaEventDisableTiming)) &&
             good(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming)) && good(cudaMalloc(&d, n * sizeof(int))) &&
             good(cudaHostAlloc(&h, n * sizeof(int), cudaHostAllocDefault));
      auto* numbers = static_cast<int*>(d);
      double last = vg::now();
      for (int step = 0; fine && step < 100; ++step) {
        const int base = t * 1000 + step;
        hostoffload_range writes{d, n * sizeof(int)};
        hostoffload_kernel k{};
        struct closure {
          int* out;
          int base;
        } code{numbers, base};
        k.name = "iota";
        k.writes = &writes;
        k.write_count = 1;
        k.bytes = n * sizeof(int);
        k.closure_bytes = sizeof code;
        k.closure_align = alignof(closure);
        k.closure = &code;
        k.copy = [](void* to, const void* from) { ::new (to) closure(*static_cast<const closure*>(from)); };
        k.run = [](void* c) {
          auto* self = static_cast<closure*>(c);
          std::iota(self->out, self->out + n, self->base);
        };
        fine = good(hostoffload_launch(compute, &k)) && good(cudaEventRecord(made, compute)) &&
               good(cudaStreamWaitEvent(copy, made, 0)) &&
               good(cudaMemcpyAsync(h, d, n * sizeof(int), cudaMemcpyDeviceToHost, copy)) &&
               good(cudaEventRecord(copied, copy)) && good(cudaStreamWaitEvent(compute, copied, 0)) &&
               good(cudaEventSynchronize(copied));
        const auto* result = static_cast<const int*>(h);
        fine = fine && result[0] == base && result[n - 1] == base + static_cast<int>(n) - 1;
        fine = fine && vg::now() > last;
        last = vg::now();
      }
      fine = fine && cudaSetDevice(9) == cudaErrorInvalidDevice;  // an error of this thread alone
      finished.fetch_add(1);
      while (finished.load() < threads) std::this_thread::yield();
      fine = fine && cudaGetLastError() == cudaErrorInvalidDevice && cudaGetLastError() == cudaSuccess;
      fine = fine && good(cudaFree(d)) && good(cudaFreeHost(h)) && good(cudaEventDestroy(made)) &&
             good(cudaEventDestroy(copied)) && good(cudaStreamDestroy(compute)) && good(cudaStreamDestroy(copy));
      if (fine) right.fetch_add(1);
    });
  }
  for (auto& t : all) t.join();
  CHECK(right.load() == threads);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(silent());
  CHECK(vg::leaks().empty());
}

TEST_CASE("per-thread default streams are different streams") {
  gpu g;
  unsigned long long here = 0;
  unsigned long long there = 0;
  ok(cudaStreamGetId(cudaStreamPerThread, &here));
  std::thread([&] { static_cast<void>(cudaStreamGetId(cudaStreamPerThread, &there)); }).join();
  CHECK(here != 0);
  CHECK(there != 0);
  CHECK(here != there);
}
