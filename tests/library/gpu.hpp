#pragma once
// What the library's tests share: a fresh device that has to be quiet at the end, and small kernels. On a GPU the
// control functions are those of tests/gpu/control.cpp.

#include "catch.hpp"
#include "kernel_memory.hpp"

#include <hostoffload/hostoffload.hpp>
#include <hostoffload/launch.hpp>
#include <hostoffload/virtual_gpu/control.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace ho = hostoffload;
namespace vg = hostoffload::virtual_gpu;

/// Declared first in a test, so destroyed last: then nothing may be left, and nothing may have been reported.
class gpu {
public:
  explicit gpu(const vg::machine& m = vg::gb200(), int devices = 1) { vg::reset(m, devices); }
  gpu(const gpu&) = delete;
  gpu& operator=(const gpu&) = delete;
  ~gpu() {
    if (std::uncaught_exceptions() != 0) return;
    static_cast<void>(cudaDeviceSynchronize());
    CHECK(text_of(vg::findings()).empty());
    CHECK(text_of(vg::leaks()).empty());
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }

  static std::string text_of(const std::vector<vg::finding>& all) {
    std::string text;
    for (const vg::finding& f : all) text += f.message + '\n';
    return text;
  }
};

/// The scheduler's slots, to the race detector.
inline constexpr ho::slot_observer watched{vg::slot_taken, vg::slot_given_back};

/// out[i] = first + i
inline void fill(cudaStream_t stream, float* out, std::size_t n, float first) {
  ho::launch(stream, n, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { out[i] = first + static_cast<float>(i); },
             {.name = "fill", .writes = {{out, n * sizeof *out}}, .flops = static_cast<double>(n)});
}

/// out[i] = a[i] + b[i] + plus
inline void add(cudaStream_t stream, const float* a, const float* b, float* out, std::size_t n, float plus = 0) {
  ho::launch(stream, n, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { out[i] = a[i] + b[i] + plus; },
             {.name = "add",
              .reads = {{a, n * sizeof *a}, {b, n * sizeof *b}},
              .writes = {{out, n * sizeof *out}},
              .flops = 2.0 * static_cast<double>(n)});
}

/// On a GPU: waits about so long, at 1.5 GHz.
struct wait_a_while {
  double seconds;
  HOSTOFFLOAD_DEVICE void operator()(std::size_t) const {
#if defined(__CUDA_ARCH__)
    const long long start = clock64();
    while (static_cast<double>(clock64() - start) < seconds * 1.5e9) {
    }
#endif
  }
};

/// Takes so many seconds and touches nothing.
inline void busy(cudaStream_t stream, double seconds) {
  const vg::machine m = vg::current_machine();
  ho::launch(stream, 1, wait_a_while{seconds}, {.name = "busy", .bytes = seconds * m.hbm.value});
}

/// What a kernel on `stream` reads of the device, when it comes to it. May be gone before that.
class seen {
public:
  explicit seen(std::size_t n) : memory_(memory_for_kernels(n)), values_(n) {}
  seen(cudaStream_t stream, const float* in, std::size_t n) : seen(n) { look(stream, in); }

  void look(cudaStream_t stream, const float* in) { copy_out(stream, in, memory_, values_.size()); }

  /// The device is synchronised; true if the values are first, first + 1, …
  [[nodiscard]] bool is(float first) const {
    static_cast<void>(values());
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const float value = values_[i];
      if (value != first + static_cast<float>(i)) {
        INFO("element " << i << " is " << value << ", not " << first + static_cast<float>(i));
        CHECK(false);
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] const std::vector<float>& values() const {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    std::copy_n(memory_.get(), values_.size(), values_.begin());
    return values_;
  }

private:
  kernel_memory memory_;
  mutable std::vector<float> values_;
};
