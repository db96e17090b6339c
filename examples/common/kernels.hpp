#pragma once
// Element and row kernels of transformers. All enqueue on `stream` and return at once; pointers are device memory.
// Every sum runs in one fixed order, so the same input gives the same bits. Layouts are row-major, a row is a token.

#include "element.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace examples {

/// `rows` rows of `width`; those of x and d_x lie `pitch` elements apart.
struct norm_shape {
  norm_shape(std::size_t row_count, std::size_t row_width, double under_root)
      : norm_shape(row_count, row_width, under_root, row_width) {}
  norm_shape(std::size_t row_count, std::size_t row_width, double under_root, std::size_t row_pitch)
      : rows(row_count), width(row_width), epsilon(under_root), pitch(row_pitch) {}

  std::size_t rows, width;
  double epsilon;
  std::size_t pitch;
  [[nodiscard]] std::size_t extent() const { return (rows - 1) * pitch + width; }  // of x, in elements
};

/// Defined for float, double and bf16.
template <class T>
struct kernels {
  using C = compute_t<T>;

  /// out[row] = table[tokens[row]]: [rows, hidden] from [vocabulary, hidden].
  static void embed(cudaStream_t stream, const std::int32_t* tokens, const T* table, T* out, std::size_t rows,
                    std::size_t hidden, std::size_t vocabulary);

  /// d_table[tokens[row]] += d_out[row], in the order of the rows.
  static void embed_backward(cudaStream_t stream, const std::int32_t* tokens, const T* d_out, C* d_table,
                             std::size_t rows, std::size_t hidden, std::size_t vocabulary);

  /// out = x * rstd * weight with rstd = 1 / sqrt(mean(x^2) + epsilon) per row (Zhang and Sennrich, arXiv 1910.07467).
  static void rms_norm(cudaStream_t stream, const norm_shape& s, const T* x, const T* weight, T* out, C* rstd);

  /// d_x += the gradient that d_out sends through the norm; d_weight += its gradient. `rstd` as rms_norm left it.
  static void rms_norm_backward(cudaStream_t stream, const norm_shape& s, const T* d_out, const T* x, const T* weight,
                                const C* rstd, T* d_x, C* d_weight);

  /// Cosines and sines of position * theta^(-2 i / head_size) for i < head_size / 2: two arrays of [sequence, head_size
  /// / 2].
  static void rope_angles(cudaStream_t stream, C* cosines, C* sines, std::size_t sequence, std::size_t head_size,
                          double theta);

  /// Rotates, in place, the pairs (x[i], x[i + head_size / 2]) of every head by the row's position in its sequence: the
  /// arrangement of Hugging Face's rotate_half. `direction` -1 rotates back, which is also the gradient.
  static void rope(cudaStream_t stream, T* x, const C* cosines, const C* sines, std::size_t rows, std::size_t sequence,
                   std::size_t heads, std::size_t head_size, int direction);

  /// act = gate * sigmoid(gate) * up (Shazeer, arXiv 2002.05202).
  static void swiglu(cudaStream_t stream, const T* gate, const T* up, T* act, std::size_t elements);

  static void swiglu_backward(cudaStream_t stream, const T* gate, const T* up, const T* d_act, T* d_gate, T* d_up,
                              std::size_t elements);

  /// loss[row] = -log softmax(logits[row])[targets[row]].
  static void cross_entropy(cudaStream_t stream, const T* logits, const std::int32_t* targets, C* loss,
                            std::size_t rows, std::size_t vocabulary);

  /// logits becomes scale * (softmax(logits) - onehot(target)), the gradient of scale * sum(loss).
  static void cross_entropy_backward(cudaStream_t stream, T* logits, const std::int32_t* targets, double scale,
                                     std::size_t rows, std::size_t vocabulary);

  /// total += scale * sum(loss), in double.
  static void add_losses(cudaStream_t stream, const C* loss, double scale, double* total, std::size_t rows);
};

}  // namespace examples
