#include "attention.hpp"

#include <cmath>

namespace examples {
namespace {

/// Eight interleaved partial sums: a fixed order that fills vector registers.
template <class C, class A, class B>
HOSTOFFLOAD_DEVICE C dot(const A* a, const B* b, std::size_t n) {
  C parts[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane)
      parts[lane] += static_cast<C>(a[i + lane]) * static_cast<C>(b[i + lane]);
  }
  for (; i < n; ++i) parts[i % 8] += static_cast<C>(a[i]) * static_cast<C>(b[i]);
  return ((parts[0] + parts[4]) + (parts[1] + parts[5])) + ((parts[2] + parts[6]) + (parts[3] + parts[7]));
}

/// to += factor * from
template <class C, class A>
HOSTOFFLOAD_DEVICE void add_scaled(C* to, C factor, const A* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] += factor * static_cast<C>(from[i]);
}

/// Multiplications and additions over the causal half of the scores, of so many matrix products with heads of keys'
/// size and so many of values'.
double causal_flops(const attention_shape& s, std::size_t of_keys, std::size_t of_values) {
  return static_cast<double>(s.rows) * static_cast<double>(s.sequence) *
         static_cast<double>(s.heads * (of_keys * s.head_size + of_values * s.value_size));
}

}  // namespace

// A query head of a token per thread, with the running maximum of an online softmax.
template <class T>
void attention<T>::forward(cudaStream_t stream, const attention_shape& shape, const T* q, const T* k, const T* v,
                           T* context, C* lse) {
  const std::size_t rows = shape.rows;
  const std::size_t sequence = shape.sequence;
  const std::size_t heads = shape.heads;
  const std::size_t kv_heads = shape.kv_heads;
  const std::size_t size = shape.head_size;
  const std::size_t value_size = shape.value_size;
  const C scale = C(1) / std::sqrt(static_cast<C>(size));
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    const std::size_t row = i / heads;
    const std::size_t kv_head = i % heads / (heads / kv_heads);
    C query[largest_head];
    C sum[largest_head];
    for (std::size_t c = 0; c < size; ++c) query[c] = static_cast<C>(q[i * size + c]);
    for (std::size_t c = 0; c < value_size; ++c) sum[c] = 0;
    C largest = -INFINITY;
    C total = 0;
    for (std::size_t other = row - row % sequence; other <= row; ++other) {
      const std::size_t at = other * kv_heads + kv_head;
      const C score = scale * dot<C>(query, k + at * size, size);
      if (score > largest) {
        const C shrink = std::exp(largest - score);
        for (std::size_t c = 0; c < value_size; ++c) sum[c] *= shrink;
        total *= shrink;
        largest = score;
      }
      const C weight = std::exp(score - largest);
      total += weight;
      add_scaled(sum, weight, v + at * value_size, value_size);
    }
    for (std::size_t c = 0; c < value_size; ++c) context[i * value_size + c] = static_cast<T>(sum[c] / total);
    lse[i] = largest + std::log(total);
  };
  const std::size_t query_elements = rows * heads * size;
  const std::size_t context_elements = rows * heads * value_size;
  const std::size_t key_elements = rows * kv_heads * size;
  const std::size_t value_elements = rows * kv_heads * value_size;
  ho::launch(stream, rows * heads, kernel,
             ho::work{.name = "attention",
                      .reads = {range(q, query_elements), range(k, key_elements), range(v, value_elements)},
                      .writes = {range(context, context_elements), range(lse, rows * heads)},
                      .flops = causal_flops(shape, 1, 1),
                      .rate = rate_of<T>});
}

// Three kernels, so that no sum needs an atomic: delta per query row, d_q per query row, d_k and d_v per key row.
template <class T>
void attention<T>::backward(cudaStream_t stream, const attention_shape& shape, const T* q, const T* k, const T* v,
                            const T* context, const C* lse, const T* d_context, C* delta, T* d_q, T* d_k, T* d_v) {
  const std::size_t rows = shape.rows;
  const std::size_t sequence = shape.sequence;
  const std::size_t heads = shape.heads;
  const std::size_t kv_heads = shape.kv_heads;
  const std::size_t size = shape.head_size;
  const std::size_t value_size = shape.value_size;
  const C scale = C(1) / std::sqrt(static_cast<C>(size));

  const auto to_delta = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    delta[i] = dot<C>(d_context + i * value_size, context + i * value_size, value_size);
  };
  const auto to_q = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    const std::size_t row = i / heads;
    const std::size_t kv_head = i % heads / (heads / kv_heads);
    C query[largest_head];
    C d_out[largest_head];
    C sum[largest_head];
    for (std::size_t c = 0; c < size; ++c) {
      query[c] = static_cast<C>(q[i * size + c]);
      sum[c] = 0;
    }
    for (std::size_t c = 0; c < value_size; ++c) d_out[c] = static_cast<C>(d_context[i * value_size + c]);
    for (std::size_t other = row - row % sequence; other <= row; ++other) {
      const std::size_t at = other * kv_heads + kv_head;
      const C weight = std::exp(scale * dot<C>(query, k + at * size, size) - lse[i]);
      const C d_score = weight * (dot<C>(d_out, v + at * value_size, value_size) - delta[i]) * scale;
      add_scaled(sum, d_score, k + at * size, size);
    }
    for (std::size_t c = 0; c < size; ++c) d_q[i * size + c] = static_cast<T>(sum[c]);
  };
  const auto to_kv = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    const std::size_t row = i / kv_heads;
    const std::size_t group = heads / kv_heads;
    C key[largest_head];
    C value[largest_head];
    C key_sum[largest_head];
    C value_sum[largest_head];
    for (std::size_t c = 0; c < size; ++c) {
      key[c] = static_cast<C>(k[i * size + c]);
      key_sum[c] = 0;
    }
    for (std::size_t c = 0; c < value_size; ++c) {
      value[c] = static_cast<C>(v[i * value_size + c]);
      value_sum[c] = 0;
    }
    for (std::size_t other = row; other < row - row % sequence + sequence; ++other) {
      for (std::size_t head = i % kv_heads * group; head < (i % kv_heads + 1) * group; ++head) {
        const std::size_t from = other * heads + head;
        const C weight = std::exp(scale * dot<C>(key, q + from * size, size) - lse[from]);
        const T* const d_out = d_context + from * value_size;
        const C d_score = weight * (dot<C>(value, d_out, value_size) - delta[from]) * scale;
        add_scaled(value_sum, weight, d_out, value_size);
        add_scaled(key_sum, d_score, q + from * size, size);
      }
    }
    for (std::size_t c = 0; c < size; ++c) d_k[i * size + c] = static_cast<T>(key_sum[c]);
    for (std::size_t c = 0; c < value_size; ++c) d_v[i * value_size + c] = static_cast<T>(value_sum[c]);
  };

  const std::size_t query_elements = rows * heads * size;
  const std::size_t context_elements = rows * heads * value_size;
  const std::size_t key_elements = rows * kv_heads * size;
  const std::size_t value_elements = rows * kv_heads * value_size;
  ho::launch(stream, rows * heads, to_delta,
             ho::work{.name = "attention_delta",
                      .reads = {range(context, context_elements), range(d_context, context_elements)},
                      .writes = {range(delta, rows * heads)}});
  ho::launch(
      stream, rows * heads, to_q,
      ho::work{.name = "attention_backward_q",
               .reads = {range(q, query_elements), range(k, key_elements), range(v, value_elements),
                         range(d_context, context_elements), range(lse, rows * heads), range(delta, rows * heads)},
               .writes = {range(d_q, query_elements)},
               .flops = causal_flops(shape, 2, 1),
               .rate = rate_of<T>});
  ho::launch(
      stream, rows * kv_heads, to_kv,
      ho::work{.name = "attention_backward_kv",
               .reads = {range(q, query_elements), range(k, key_elements), range(v, value_elements),
                         range(d_context, context_elements), range(lse, rows * heads), range(delta, rows * heads)},
               .writes = {range(d_k, key_elements), range(d_v, value_elements)},
               .flops = causal_flops(shape, 2, 2),
               .rate = rate_of<T>});
}

template struct attention<float>;
template struct attention<double>;
template struct attention<bf16>;

}  // namespace examples
