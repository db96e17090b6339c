#pragma once
// What the README's program calls "your own kernels".

#include <hostoffload/launch.hpp>

#include <cmath>
#include <cstddef>

inline void fill(cudaStream_t stream, float* out, std::size_t n, float value) {
  hostoffload::launch(stream, n, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { out[i] = value; },
                      {.name = "fill", .writes = {{out, n * sizeof *out}}});
}

inline void swiglu(cudaStream_t stream, const float* gate, const float* up, float* out, std::size_t n) {
  hostoffload::launch(stream, n,
                      [=] HOSTOFFLOAD_DEVICE(std::size_t i) { out[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i]; },
                      {.name = "swiglu",
                       .reads = {{gate, n * sizeof *gate}, {up, n * sizeof *up}},
                       .writes = {{out, n * sizeof *out}},
                       .flops = 10.0 * static_cast<double>(n)});
}
