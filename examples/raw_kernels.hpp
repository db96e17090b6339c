#pragma once
// The kernels of raw_trainer and raw_trainer_offload: a pre-norm transformer of floats, forward and backward, written
// for clarity. Matrices are row-major; `rows` is batch · sequence, a weight of I inputs and O outputs is O × I. Each
// function enqueues on `stream` and returns; every output is written by one thread in a fixed order, so bits repeat.

#include <hostoffload/launch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace raw {

namespace ho = hostoffload;

inline ho::byte_range range(const float* p, std::size_t n) { return {p, n * sizeof *p}; }
inline ho::byte_range range(const int* p, std::size_t n) { return {p, n * sizeof *p}; }

/// Uniform in ±scale from a counter-based generator (splitmix64, Steele et al. 2014).
inline void fill_random(cudaStream_t stream, float* p, std::size_t n, std::uint64_t seed, float scale) {
  ho::launch(stream, n,
             [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
               std::uint64_t z = (seed + i + 1) * 0x9E3779B97F4A7C15U;
               z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
               z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
               p[i] = scale * (static_cast<float>((z ^ (z >> 31U)) >> 40U) * 0x1p-23F - 1);
             },
             {.name = "fill_random", .writes = {range(p, n)}});
}

/// h[r] = table[tokens[r]] + positions[r mod sequence]
inline void embed(cudaStream_t stream, const int* tokens, const float* table, const float* positions, float* h,
                  std::size_t rows, std::size_t sequence, std::size_t width, std::size_t vocabulary) {
  ho::launch(stream, rows * width,
             [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
               const std::size_t r = i / width;
               const std::size_t c = i % width;
               h[i] = table[static_cast<std::size_t>(tokens[r]) * width + c] + positions[r % sequence * width + c];
             },
             {.name = "embed",
              .reads = {range(tokens, rows), range(table, vocabulary * width), range(positions, sequence * width)},
              .writes = {range(h, rows * width)}});
}

/// Gradients of both tables from dh, each entry summed over the rows that used it.
inline void embed_backward(cudaStream_t stream, const int* tokens, const float* dh, float* dtable, float* dpositions,
                           std::size_t rows, std::size_t sequence, std::size_t width, std::size_t vocabulary) {
  ho::launch(stream, (vocabulary + sequence) * width,
             [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
               const std::size_t entry = i / width;
               const bool position = entry >= vocabulary;
               float sum = 0;
               for (std::size_t r = 0; r < rows; ++r) {
                 const std::size_t used = position ? vocabulary + r % sequence : static_cast<std::size_t>(tokens[r]);
                 if (used == entry) sum += dh[r * width + i % width];
               }
               (position ? dpositions + (i - vocabulary * width) : dtable + i)[0] = sum;
             },
             {.name = "embed_backward",
              .reads = {range(tokens, rows), range(dh, rows * width)},
              .writes = {range(dtable, vocabulary * width), range(dpositions, sequence * width)}});
}

/// y = h / rms(h) row by row, and scale = 1 / rms(h).
inline void rms_norm(cudaStream_t stream, const float* h, float* y, float* scale, std::size_t rows, std::size_t width) {
  ho::launch(
      stream, rows,
      [=] HOSTOFFLOAD_DEVICE(std::size_t r) {
        float sum = 0;
        for (std::size_t c = 0; c < width; ++c) sum += h[r * width + c] * h[r * width + c];
        scale[r] = 1 / std::sqrt(sum / static_cast<float>(width) + 1e-5F);
        for (std::size_t c = 0; c < width; ++c) y[r * width + c] = h[r * width + c] * scale[r];
      },
      {.name = "rms_norm", .reads = {range(h, rows * width)}, .writes = {range(y, rows * width), range(scale, rows)}});
}

/// dh += scale · (dy − y · mean(dy · y)): needs the norm's outputs, not its input.
inline void rms_norm_backward(cudaStream_t stream, const float* y, const float* scale, const float* dy, float* dh,
                              std::size_t rows, std::size_t width) {
  ho::launch(stream, rows,
             [=] HOSTOFFLOAD_DEVICE(std::size_t r) {
               float dot = 0;
               for (std::size_t c = 0; c < width; ++c) dot += dy[r * width + c] * y[r * width + c];
               dot /= static_cast<float>(width);
               for (std::size_t c = 0; c < width; ++c) {
                 dh[r * width + c] += scale[r] * (dy[r * width + c] - y[r * width + c] * dot);
               }
             },
             {.name = "rms_norm_backward",
              .reads = {range(y, rows * width), range(scale, rows), range(dy, rows * width), range(dh, rows * width)},
              .writes = {range(dh, rows * width)}});
}

/// out = in · wᵀ
inline void matmul(cudaStream_t stream, const float* in, const float* w, float* out, std::size_t rows,
                   std::size_t inputs, std::size_t outputs) {
  ho::launch(stream, rows * outputs,
             [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
               float sum = 0;
               for (std::size_t k = 0; k < inputs; ++k)
                 sum += in[i / outputs * inputs + k] * w[i % outputs * inputs + k];
               out[i] = sum;
             },
             {.name = "matmul",
              .reads = {range(in, rows * inputs), range(w, outputs * inputs)},
              .writes = {range(out, rows * outputs)},
              .flops = 2.0 * static_cast<double>(rows * inputs * outputs)});
}

/// h += in · wᵀ: a projection into the residual stream.
inline void matmul_add(cudaStream_t stream, const float* in, const float* w, float* h, std::size_t rows,
                       std::size_t inputs, std::size_t outputs) {
  ho::launch(stream, rows * outputs,
             [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
               float sum = h[i];
               for (std::size_t k = 0; k < inputs; ++k)
                 sum += in[i / outputs * inputs + k] * w[i % outputs * inputs + k];
               h[i] = sum;
             },
             {.name = "matmul_add",
              .reads = {range(in, rows * inputs), range(w, outputs * inputs), range(h, rows * outputs)},
              .writes = {range(h, rows * outputs)},
              .flops = 2.0 * static_cast<double>(rows * inputs * outputs)});
}

/// din = dout · w and dw = doutᵀ · in
inline void matmul_backward(cudaStream_t stream, const float* in, const float* w, const float* dout, float* din,
                            float* dw, std::size_t rows, std::size_t inputs, std::size_t outputs) {
  ho::launch(stream, rows * inputs,
             [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
               float sum = 0;
               for (std::size_t o = 0; o < outputs; ++o)
                 sum += dout[i / inputs * outputs + o] * w[o * inputs + i % inputs];
               din[i] = sum;
             },
             {.name = "matmul_backward_input",
              .reads = {range(dout, rows * outputs), range(w, outputs * inputs)},
              .writes = {range(din, rows * inputs)},
              .flops = 2.0 * static_cast<double>(rows * inputs * outputs)});
  ho::launch(stream, outputs * inputs,
             [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
               float sum = 0;
               for (std::size_t r = 0; r < rows; ++r)
                 sum += dout[r * outputs + i / inputs] * in[r * inputs + i % inputs];
               dw[i] = sum;
             },
             {.name = "matmul_backward_weight",
              .reads = {range(dout, rows * outputs), range(in, rows * inputs)},
              .writes = {range(dw, outputs * inputs)},
              .flops = 2.0 * static_cast<double>(rows * inputs * outputs)});
}

/// Causal attention of one head over a batch: qkv has q, k and v of a row side by side; probabilities are sequence ×
/// sequence for each of the batch.
inline void attention(cudaStream_t stream, const float* qkv, float* probabilities, float* context, std::size_t rows,
                      std::size_t sequence, std::size_t width) {
  const float scale = 1 / std::sqrt(static_cast<float>(width));
  ho::launch(stream, rows,
             [=] HOSTOFFLOAD_DEVICE(std::size_t r) {
               const std::size_t first = r / sequence * sequence;
               const std::size_t seen = r % sequence + 1;
               const float* q = qkv + r * 3 * width;
               const float* keys = qkv + first * 3 * width + width;
               float* p = probabilities + r * sequence;
               float top = -INFINITY;
               for (std::size_t s = 0; s < seen; ++s) {
                 float dot = 0;
                 for (std::size_t c = 0; c < width; ++c) dot += q[c] * keys[s * 3 * width + c];
                 p[s] = dot * scale;
                 top = std::fmax(top, p[s]);
               }
               float sum = 0;
               for (std::size_t s = 0; s < seen; ++s) sum += p[s] = std::exp(p[s] - top);
               for (std::size_t s = 0; s < sequence; ++s) p[s] = s < seen ? p[s] / sum : 0;
               for (std::size_t c = 0; c < width; ++c) {
                 float mixed = 0;
                 for (std::size_t s = 0; s < seen; ++s) mixed += p[s] * keys[s * 3 * width + width + c];
                 context[r * width + c] = mixed;
               }
             },
             {.name = "attention",
              .reads = {range(qkv, rows * 3 * width)},
              .writes = {range(probabilities, rows * sequence), range(context, rows * width)},
              .flops = 4.0 * static_cast<double>(rows * sequence * width)});
}

/// dqkv from dcontext; `dscores` is scratch of the probabilities' size.
inline void attention_backward(cudaStream_t stream, const float* qkv, const float* probabilities, const float* dcontext,
                               float* dscores, float* dqkv, std::size_t rows, std::size_t sequence, std::size_t width) {
  const float scale = 1 / std::sqrt(static_cast<float>(width));
  ho::launch(
      stream, rows,
      [=] HOSTOFFLOAD_DEVICE(std::size_t r) {
        const float* values = qkv + r / sequence * sequence * 3 * width + 2 * width;
        const float* p = probabilities + r * sequence;
        float* d = dscores + r * sequence;
        float mean = 0;
        for (std::size_t s = 0; s < sequence; ++s) {
          d[s] = 0;
          for (std::size_t c = 0; c < width; ++c) d[s] += dcontext[r * width + c] * values[s * 3 * width + c];
          mean += p[s] * d[s];
        }
        for (std::size_t s = 0; s < sequence; ++s) d[s] = p[s] * (d[s] - mean) * scale;
      },
      {.name = "attention_backward_scores",
       .reads = {range(qkv, rows * 3 * width), range(probabilities, rows * sequence), range(dcontext, rows * width)},
       .writes = {range(dscores, rows * sequence)},
       .flops = 2.0 * static_cast<double>(rows * sequence * width)});
  ho::launch(stream, rows * width,
             [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
               const std::size_t r = i / width;
               const std::size_t c = i % width;
               const std::size_t first = r / sequence * sequence;
               const std::size_t at = r % sequence;
               float dq = 0;
               float dk = 0;
               float dv = 0;
               for (std::size_t s = 0; s < sequence; ++s) {
                 const std::size_t other = first + s;
                 dq += dscores[r * sequence + s] * qkv[other * 3 * width + width + c];
                 dk += dscores[other * sequence + at] * qkv[other * 3 * width + c];
                 dv += probabilities[other * sequence + at] * dcontext[other * width + c];
               }
               float* d = dqkv + r * 3 * width + c;
               d[0] = dq;
               d[width] = dk;
               d[2 * width] = dv;
             },
             {.name = "attention_backward_qkv",
              .reads = {range(qkv, rows * 3 * width), range(probabilities, rows * sequence),
                        range(dcontext, rows * width), range(dscores, rows * sequence)},
              .writes = {range(dqkv, rows * 3 * width)},
              .flops = 6.0 * static_cast<double>(rows * sequence * width)});
}

/// out = up · sigmoid(1.702 up), the sigmoid form of GELU (Hendrycks and Gimpel, arXiv 1606.08415).
inline void gelu(cudaStream_t stream, const float* up, float* out, std::size_t n) {
  ho::launch(
      stream, n, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { out[i] = up[i] / (1 + std::exp(-1.702F * up[i])); },
      {.name = "gelu", .reads = {range(up, n)}, .writes = {range(out, n)}, .flops = 5.0 * static_cast<double>(n)});
}

/// d, the gradient of gelu's output, becomes that of its input.
inline void gelu_backward(cudaStream_t stream, const float* up, float* d, std::size_t n) {
  ho::launch(stream, n,
             [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
               const float s = 1 / (1 + std::exp(-1.702F * up[i]));
               d[i] *= s + 1.702F * up[i] * s * (1 - s);
             },
             {.name = "gelu_backward",
              .reads = {range(up, n), range(d, n)},
              .writes = {range(d, n)},
              .flops = 8.0 * static_cast<double>(n)});
}

/// losses[r] = −log softmax(logits[r])[targets[r]]; the logits become their gradients of the mean loss.
inline void cross_entropy(cudaStream_t stream, float* logits, const int* targets, float* losses, std::size_t rows,
                          std::size_t vocabulary) {
  ho::launch(stream, rows,
             [=] HOSTOFFLOAD_DEVICE(std::size_t r) {
               float* l = logits + r * vocabulary;
               const auto target = static_cast<std::size_t>(targets[r]);
               float top = l[0];
               for (std::size_t v = 1; v < vocabulary; ++v) top = std::fmax(top, l[v]);
               float sum = 0;
               for (std::size_t v = 0; v < vocabulary; ++v) sum += std::exp(l[v] - top);
               losses[r] = std::log(sum) - (l[target] - top);
               for (std::size_t v = 0; v < vocabulary; ++v) {
                 l[v] = (std::exp(l[v] - top) / sum - (v == target ? 1.0F : 0.0F)) / static_cast<float>(rows);
               }
             },
             {.name = "cross_entropy",
              .reads = {range(logits, rows * vocabulary), range(targets, rows)},
              .writes = {range(logits, rows * vocabulary), range(losses, rows)},
              .flops = 6.0 * static_cast<double>(rows * vocabulary)});
}

/// AdamW (Loshchilov and Hutter, arXiv 1711.05101); `step` counts from 1.
inline void adamw(cudaStream_t stream, float* p, const float* g, float* m, float* v, std::size_t n, float rate,
                  int step) {
  const float first = 1 / (1 - std::pow(0.9F, static_cast<float>(step)));
  const float second = 1 / (1 - std::pow(0.99F, static_cast<float>(step)));
  ho::launch(stream, n,
             [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
               m[i] = 0.9F * m[i] + 0.1F * g[i];
               v[i] = 0.99F * v[i] + 0.01F * g[i] * g[i];
               p[i] -= rate * (m[i] * first / (std::sqrt(v[i] * second) + 1e-8F) + 0.01F * p[i]);
             },
             {.name = "adamw",
              .reads = {range(p, n), range(g, n), range(m, n), range(v, n)},
              .writes = {range(p, n), range(m, n), range(v, n)},
              .flops = 16.0 * static_cast<double>(n)});
}

}  // namespace raw
