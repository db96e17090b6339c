// Bound by memory on every described machine: what is declared is the bytes that are moved, and no arithmetic.
#include "permute.hpp"

namespace moe {

namespace ho = hostoffload;
using examples::range;

namespace {

/// What the probabilities of a row are multiplied by.
template <class C>
HOSTOFFLOAD_DEVICE C weight_factor(const C* probabilities, std::size_t top_k, double scale) {
  C sum = static_cast<C>(1e-20);  // as Hugging Face has it
  for (std::size_t i = 0; i < top_k; ++i) sum += probabilities[i];
  return static_cast<C>(scale) / sum;
}

/// Bytes of so many rows, read or written, and of the slots.
template <class T>
double moved(const routing_shape& s, std::size_t width, std::size_t rows) {
  return static_cast<double>(rows * width * sizeof(T) + s.pairs() * sizeof(std::int32_t));
}

}  // namespace

template <class T>
void permute<T>::gather(cudaStream_t stream, const routing_shape& s, std::size_t kept, std::size_t width, const T* x,
                        const std::int32_t* slots, T* out) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t pair, ho::row_block block) {
    if (slots[pair] < 0) return;
    const T* const from = x + pair / s.top_k * width;
    T* const to = out + static_cast<std::size_t>(slots[pair]) * width;
    for (std::size_t c = block.thread(); c < width; c += block.threads()) to[c] = from[c];
  };
  ho::launch_rows(stream, s.pairs(), kernel,
                  ho::work{.name = "gather",
                           .reads = {range(x, s.rows * width), range(slots, s.pairs())},
                           .writes = {range(out, kept * width)},
                           .bytes = moved<T>(s, width, 2 * kept)});
}

template <class T>
void permute<T>::gather_backward(cudaStream_t stream, const routing_shape& s, std::size_t kept, std::size_t width,
                                 const T* y, const std::int32_t* slots, T* out) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t row, ho::row_block block) {
    const std::int32_t* const places = slots + row * s.top_k;
    for (std::size_t c = block.thread(); c < width; c += block.threads()) {
      C sum = static_cast<C>(out[row * width + c]);
      for (std::size_t i = 0; i < s.top_k; ++i) {
        if (places[i] >= 0) sum += static_cast<C>(y[static_cast<std::size_t>(places[i]) * width + c]);
      }
      out[row * width + c] = static_cast<T>(sum);
    }
  };
  ho::launch_rows(stream, s.rows, kernel,
                  ho::work{.name = "gather_backward",
                           .reads = {range(y, kept * width), range(slots, s.pairs()), range(out, s.rows * width)},
                           .writes = {range(out, s.rows * width)},
                           .bytes = moved<T>(s, width, kept + 2 * s.rows)});
}

template <class T>
void permute<T>::combine(cudaStream_t stream, const routing_shape& s, std::size_t kept, std::size_t width, const T* y,
                         const C* probabilities, const std::int32_t* slots, T* out) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t row, ho::row_block block) {
    const std::int32_t* const places = slots + row * s.top_k;
    const C* const p = probabilities + row * s.top_k;
    const C factor = weight_factor(p, s.top_k, s.scale);
    for (std::size_t c = block.thread(); c < width; c += block.threads()) {
      C sum = static_cast<C>(out[row * width + c]);
      for (std::size_t i = 0; i < s.top_k; ++i) {
        if (places[i] < 0) continue;
        sum += factor * p[i] * static_cast<C>(y[static_cast<std::size_t>(places[i]) * width + c]);
      }
      out[row * width + c] = static_cast<T>(sum);
    }
  };
  ho::launch_rows(stream, s.rows, kernel,
                  ho::work{.name = "combine",
                           .reads = {range(y, kept * width), range(probabilities, s.pairs()), range(slots, s.pairs()),
                                     range(out, s.rows * width)},
                           .writes = {range(out, s.rows * width)},
                           .bytes = moved<T>(s, width, kept + 2 * s.rows)});
}

template <class T>
void permute<T>::weigh_backward(cudaStream_t stream, const routing_shape& s, std::size_t kept, std::size_t width,
                                std::size_t inner, const C* probabilities, const std::int32_t* slots, const T* act,
                                T* d_y, T* d_act, C* d_weights) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t pair, ho::row_block block) {
    if (slots[pair] < 0) {
      if (block.thread() == 0) d_weights[pair] = 0;
      return;
    }
    const C* const p = probabilities + pair / s.top_k * s.top_k;
    const C weight = weight_factor(p, s.top_k, s.scale) * p[pair % s.top_k];
    const auto slot = static_cast<std::size_t>(slots[pair]);
    C part = 0;
    for (std::size_t c = block.thread(); c < inner; c += block.threads()) {
      const std::size_t at = slot * inner + c;
      part += static_cast<C>(d_act[at]) * static_cast<C>(act[at]);
      d_act[at] = static_cast<T>(weight * static_cast<C>(d_act[at]));
    }
    const C total = block.sum(part);
    if (block.thread() == 0) d_weights[pair] = total;
    for (std::size_t c = block.thread(); c < width; c += block.threads()) {
      d_y[slot * width + c] = static_cast<T>(weight * static_cast<C>(d_y[slot * width + c]));
    }
  };
  ho::launch_rows(
      stream, s.pairs(), kernel,
      ho::work{.name = "weigh_backward",
               .reads = {range(probabilities, s.pairs()), range(slots, s.pairs()), range(act, kept * inner),
                         range(d_y, kept * width), range(d_act, kept * inner)},
               .writes = {range(d_y, kept * width), range(d_act, kept * inner), range(d_weights, s.pairs())},
               .bytes = moved<T>(s, 2 * width + 3 * inner, kept)});
}

template struct permute<float>;
template struct permute<double>;
template struct permute<examples::bf16>;

}  // namespace moe
