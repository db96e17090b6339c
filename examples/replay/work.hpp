#pragma once
// What each kernel of a layer computes and moves: arithmetic that counts, and bytes to and from device memory, each
// operand once. Rows are tokens; activations are bf16. One function per kernel.

#include <hostoffload/launch.hpp>

namespace replay {

namespace ho = hostoffload;

struct amount {
  double flops = 0;
  double bytes = 0;
  ho::precision rate = ho::precision::fp32;
};

inline constexpr double bf16_bytes = 2;

/// [rows, inputs] times [inputs, outputs]: also the gradient of either operand, with the sizes exchanged. Operands have
/// `operand_bytes` per element, the result bf16.
inline amount product(double rows, double inputs, double outputs, double operand_bytes, ho::precision rate,
                      double weight_sets = 1) {
  return {2 * rows * inputs * outputs,
          (rows * inputs + weight_sets * inputs * outputs) * operand_bytes + rows * outputs * bf16_bytes, rate};
}
inline amount weight_gradient(double rows, double inputs, double outputs, double operand_bytes, ho::precision rate,
                              double weight_sets = 1) {
  return {2 * rows * inputs * outputs,
          rows * (inputs + outputs) * operand_bytes + weight_sets * inputs * outputs * bf16_bytes, rate};
}

/// bf16 to `stored_bytes` per element, by rows and by columns, for the products that read them along either.
inline amount quantise(double elements, double stored_bytes) { return {0, elements * (bf16_bytes + 2 * stored_bytes)}; }

/// Reads x, writes the norm; the backward pass reads x and both gradients, and writes one.
inline amount norm(double rows, double width) { return {0, 2 * rows * width * bf16_bytes}; }
inline amount norm_backward(double rows, double width) { return {0, 4 * rows * width * bf16_bytes}; }

/// In place.
inline amount rope(double rows, double width) { return {0, 2 * rows * width * bf16_bytes}; }

inline amount swiglu(double elements) { return {0, 3 * elements * bf16_bytes}; }
inline amount swiglu_backward(double elements) { return {0, 5 * elements * bf16_bytes}; }

/// Causal, half of the scores; widths are heads times head size. Reads q, k, v and writes the context.
inline amount attention(double rows, double sequence, double q, double k, double v, double context) {
  return {rows * sequence * (q + context), rows * (q + k + v + context) * bf16_bytes, ho::precision::bf16};
}
/// Reads q, k, v, the context and its gradient, and writes three gradients; `ratio` times the arithmetic.
inline amount attention_backward(double rows, double sequence, double q, double k, double v, double context,
                                 double ratio) {
  return {ratio * rows * sequence * (q + context), rows * (2 * (q + k + v) + 2 * context) * bf16_bytes,
          ho::precision::bf16};
}

/// Moves rows to other places: [from_rows, width] to [to_rows, width]; sums where there are fewer.
inline amount move_rows(double from_rows, double to_rows, double width) {
  return {0, (from_rows + to_rows) * width * bf16_bytes};
}

/// Logits are read for the loss; then read, and their gradient written in place.
inline amount cross_entropy(double rows, double vocabulary) { return {0, rows * vocabulary * bf16_bytes}; }
inline amount cross_entropy_backward(double rows, double vocabulary) { return {0, 2 * rows * vocabulary * bf16_bytes}; }

/// AdamW: reads and writes weights and both moments, reads gradients.
inline amount adamw(double parameters, double weight_bytes, double moment_bytes, double gradient_bytes) {
  return {0, parameters * (2 * weight_bytes + 4 * moment_bytes + gradient_bytes)};
}

}  // namespace replay
