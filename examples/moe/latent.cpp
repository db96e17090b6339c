// Bound by memory on every described machine: what is declared is the bytes that are moved, and no arithmetic.
#include "latent.hpp"

namespace moe {

namespace ho = hostoffload;
using examples::range;

template <class T>
void latent<T>::rotate_queries(cudaStream_t stream, const latent_shape& s, const C* cosines, const C* sines, T* q,
                               int direction) {
  const std::size_t half = s.rope / 2;
  const C sign = direction < 0 ? C(-1) : C(1);
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    T* const part = q + i * s.key() + s.nope;
    const std::size_t angles = i / s.heads % s.sequence * half;
    for (std::size_t pair = 0; pair < half; ++pair) {
      const C cosine = cosines[angles + pair];
      const C sine = sign * sines[angles + pair];
      const C first = static_cast<C>(part[2 * pair]);
      const C second = static_cast<C>(part[2 * pair + 1]);
      part[2 * pair] = static_cast<T>(first * cosine - second * sine);
      part[2 * pair + 1] = static_cast<T>(second * cosine + first * sine);
    }
  };
  const std::size_t elements = s.rows * s.heads * s.key();
  ho::launch(stream, s.rows * s.heads, kernel,
             ho::work{.name = "rotate_queries",
                      .reads = {range(q, elements), range(cosines, s.sequence * half), range(sines, s.sequence * half)},
                      .writes = {range(q, elements)},
                      .bytes = static_cast<double>(2 * s.rows * s.heads * s.rope * sizeof(T))});
}

template <class T>
void latent<T>::split(cudaStream_t stream, const latent_shape& s, const C* cosines, const C* sines, const T* kv_a,
                      const T* kv_b, T* k, T* v) {
  const std::size_t half = s.rope / 2;
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    const std::size_t row = i / s.heads;
    const T* const both = kv_b + i * (s.nope + s.value);
    T* const key = k + i * s.key();
    for (std::size_t c = 0; c < s.nope; ++c) key[c] = both[c];
    for (std::size_t c = 0; c < s.value; ++c) v[i * s.value + c] = both[s.nope + c];
    const T* const rotary = kv_a + row * s.kv_a_width() + s.kv_rank;
    const std::size_t angles = row % s.sequence * half;
    for (std::size_t pair = 0; pair < half; ++pair) {
      const C cosine = cosines[angles + pair];
      const C sine = sines[angles + pair];
      const C first = static_cast<C>(rotary[2 * pair]);
      const C second = static_cast<C>(rotary[2 * pair + 1]);
      key[s.nope + 2 * pair] = static_cast<T>(first * cosine - second * sine);
      key[s.nope + 2 * pair + 1] = static_cast<T>(second * cosine + first * sine);
    }
  };
  const std::size_t heads = s.rows * s.heads;
  ho::launch(stream, heads, kernel,
             ho::work{.name = "split_keys_values",
                      .reads = {range(kv_a, s.rows * s.kv_a_width()), range(kv_b, heads * (s.nope + s.value)),
                                range(cosines, s.sequence * half), range(sines, s.sequence * half)},
                      .writes = {range(k, heads * s.key()), range(v, heads * s.value)}});
}

template <class T>
void latent<T>::split_backward(cudaStream_t stream, const latent_shape& s, const C* cosines, const C* sines,
                               const T* d_k, const T* d_v, T* d_kv_a, T* d_kv_b) {
  const std::size_t half = s.rope / 2;
  const auto to_kv_b = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    T* const both = d_kv_b + i * (s.nope + s.value);
    for (std::size_t c = 0; c < s.nope; ++c) both[c] = d_k[i * s.key() + c];
    for (std::size_t c = 0; c < s.value; ++c) both[s.nope + c] = d_v[i * s.value + c];
  };
  const auto to_kv_a = [=] HOSTOFFLOAD_DEVICE(std::size_t row) {
    T* const out = d_kv_a + row * s.kv_a_width();
    for (std::size_t c = 0; c < s.kv_rank; ++c) out[c] = static_cast<T>(C(0));
    const std::size_t angles = row % s.sequence * half;
    for (std::size_t pair = 0; pair < half; ++pair) {
      C first = 0;
      C second = 0;
      for (std::size_t head = row * s.heads; head < (row + 1) * s.heads; ++head) {
        first += static_cast<C>(d_k[head * s.key() + s.nope + 2 * pair]);
        second += static_cast<C>(d_k[head * s.key() + s.nope + 2 * pair + 1]);
      }
      const C cosine = cosines[angles + pair];
      const C sine = -sines[angles + pair];
      out[s.kv_rank + 2 * pair] = static_cast<T>(first * cosine - second * sine);
      out[s.kv_rank + 2 * pair + 1] = static_cast<T>(second * cosine + first * sine);
    }
  };
  const std::size_t heads = s.rows * s.heads;
  ho::launch(stream, heads, to_kv_b,
             ho::work{.name = "join_keys_values",
                      .reads = {range(d_k, heads * s.key()), range(d_v, heads * s.value)},
                      .writes = {range(d_kv_b, heads * (s.nope + s.value))},
                      .bytes = static_cast<double>(2 * heads * (s.nope + s.value) * sizeof(T))});
  ho::launch(stream, s.rows, to_kv_a,
             ho::work{.name = "join_rotary_keys",
                      .reads = {range(d_k, heads * s.key()), range(cosines, s.sequence * half),
                                range(sines, s.sequence * half)},
                      .writes = {range(d_kv_a, s.rows * s.kv_a_width())},
                      .bytes = static_cast<double>((heads * s.rope + s.rows * s.kv_a_width()) * sizeof(T))});
}

template struct latent<float>;
template struct latent<double>;
template struct latent<examples::bf16>;

}  // namespace moe
