// One thread per element or column, one block per row. These kernels are bound by memory on every described machine, so
// they declare the bytes that they move and no arithmetic.
#include "kernels.hpp"

#include <cmath>

namespace examples {
namespace {

/// Sum of term(i) over i < n, by all threads of the block. Each keeps eight interleaved parts: a fixed order that fills
/// vector registers on a host.
template <class C, class Term>
HOSTOFFLOAD_DEVICE C sum(const ho::row_block& block, std::size_t n, const Term& term) {
  const std::size_t stride = block.threads();
  C parts[8] = {};
  std::size_t i = block.thread();
  for (; i + 7 * stride < n; i += 8 * stride) {
    for (std::size_t lane = 0; lane < 8; ++lane) parts[lane] += term(i + lane * stride);
  }
  for (std::size_t lane = 0; i < n; i += stride, ++lane) parts[lane] += term(i);
  return block.sum(((parts[0] + parts[4]) + (parts[1] + parts[5])) + ((parts[2] + parts[6]) + (parts[3] + parts[7])));
}

/// Of so many passes over the rows and over the weight, and one over the rows' scales.
template <class T>
double bytes_of_norm(const norm_shape& s, std::size_t row_passes, std::size_t weight_passes) {
  return static_cast<double>((row_passes * s.rows + weight_passes) * s.width * sizeof(T) +
                             s.rows * sizeof(compute_t<T>));
}

}  // namespace

template <class T>
void kernels<T>::embed(cudaStream_t stream, const std::int32_t* tokens, const T* table, T* out, std::size_t rows,
                       std::size_t hidden, std::size_t vocabulary) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t row, ho::row_block block) {
    const T* from = table + static_cast<std::size_t>(tokens[row]) * hidden;
    for (std::size_t c = block.thread(); c < hidden; c += block.threads()) out[row * hidden + c] = from[c];
  };
  ho::launch_rows(stream, rows, kernel,
                  ho::work{.name = "embed",
                           .reads = {range(tokens, rows), range(table, vocabulary * hidden)},
                           .writes = {range(out, rows * hidden)},
                           .bytes = static_cast<double>(2 * rows * hidden * sizeof(T))});
}

// A column per thread, which walks the tokens in order: rows of the table that occur twice need no atomic.
template <class T>
void kernels<T>::embed_backward(cudaStream_t stream, const std::int32_t* tokens, const T* d_out, C* d_table,
                                std::size_t rows, std::size_t hidden, std::size_t vocabulary) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t c) {
    for (std::size_t row = 0; row < rows; ++row) {
      d_table[static_cast<std::size_t>(tokens[row]) * hidden + c] += static_cast<C>(d_out[row * hidden + c]);
    }
  };
  ho::launch(stream, hidden, kernel,
             ho::work{.name = "embed_backward",
                      .reads = {range(tokens, rows), range(d_out, rows * hidden), range(d_table, vocabulary * hidden)},
                      .writes = {range(d_table, vocabulary * hidden)},
                      .bytes = static_cast<double>(rows * hidden * (sizeof(T) + 2 * sizeof(C)))});
}

template <class T>
void kernels<T>::rms_norm(cudaStream_t stream, const norm_shape& s, const T* x, const T* weight, T* out, C* rstd) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t row, ho::row_block block) {
    const T* in = x + row * s.pitch;
    const C squares =
        sum<C>(block, s.width, [&](std::size_t c) { return static_cast<C>(in[c]) * static_cast<C>(in[c]); });
    const C scale = C(1) / std::sqrt(squares / static_cast<C>(s.width) + static_cast<C>(s.epsilon));
    for (std::size_t c = block.thread(); c < s.width; c += block.threads()) {
      out[row * s.width + c] = static_cast<T>(static_cast<C>(in[c]) * scale * static_cast<C>(weight[c]));
    }
    if (block.thread() == 0) rstd[row] = scale;
  };
  ho::launch_rows(stream, s.rows, kernel,
                  ho::work{.name = "rms_norm",
                           .reads = {range(x, s.extent()), range(weight, s.width)},
                           .writes = {range(out, s.rows * s.width), range(rstd, s.rows)},
                           .bytes = bytes_of_norm<T>(s, 2, 1)});
}

template <class T>
void kernels<T>::rms_norm_backward(cudaStream_t stream, const norm_shape& s, const T* d_out, const T* x,
                                   const T* weight, const C* rstd, T* d_x, C* d_weight) {
  const auto to_x = [=] HOSTOFFLOAD_DEVICE(std::size_t row, ho::row_block block) {
    const T* in = x + row * s.pitch;
    const T* d = d_out + row * s.width;
    T* out = d_x + row * s.pitch;
    const C scale = rstd[row];
    const C along = sum<C>(block, s.width, [&](std::size_t c) {
      return static_cast<C>(d[c]) * static_cast<C>(weight[c]) * static_cast<C>(in[c]);
    });
    const C pull = along * scale * scale / static_cast<C>(s.width);
    for (std::size_t c = block.thread(); c < s.width; c += block.threads()) {
      const C through = scale * (static_cast<C>(d[c]) * static_cast<C>(weight[c]) - static_cast<C>(in[c]) * pull);
      out[c] = static_cast<T>(static_cast<C>(out[c]) + through);
    }
  };
  const auto to_weight = [=] HOSTOFFLOAD_DEVICE(std::size_t c) {
    C total = 0;
    for (std::size_t row = 0; row < s.rows; ++row) {
      total += static_cast<C>(d_out[row * s.width + c]) * static_cast<C>(x[row * s.pitch + c]) * rstd[row];
    }
    d_weight[c] += total;
  };
  ho::launch_rows(stream, s.rows, to_x,
                  ho::work{.name = "rms_norm_backward",
                           .reads = {range(d_out, s.rows * s.width), range(x, s.extent()), range(weight, s.width),
                                     range(rstd, s.rows), range(d_x, s.extent())},
                           .writes = {range(d_x, s.extent())},
                           .bytes = bytes_of_norm<T>(s, 4, 1)});
  ho::launch(stream, s.width, to_weight,
             ho::work{.name = "rms_norm_backward_weight",
                      .reads = {range(d_out, s.rows * s.width), range(x, s.extent()), range(rstd, s.rows),
                                range(d_weight, s.width)},
                      .writes = {range(d_weight, s.width)},
                      .bytes = bytes_of_norm<T>(s, 2, 0) + static_cast<double>(2 * s.width * sizeof(C))});
}

template <class T>
void kernels<T>::rope_angles(cudaStream_t stream, C* cosines, C* sines, std::size_t sequence, std::size_t head_size,
                             double theta) {
  const std::size_t pairs = head_size / 2;
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    const double exponent = -2.0 * static_cast<double>(i % pairs) / static_cast<double>(head_size);
    const double angle = static_cast<double>(i / pairs) * std::pow(theta, exponent);
    cosines[i] = static_cast<C>(std::cos(angle));
    sines[i] = static_cast<C>(std::sin(angle));
  };
  const std::size_t angles = sequence * pairs;
  ho::launch(stream, angles, kernel,
             ho::work{.name = "rope_angles", .writes = {range(cosines, angles), range(sines, angles)}});
}

template <class T>
void kernels<T>::rope(cudaStream_t stream, T* x, const C* cosines, const C* sines, std::size_t rows,
                      std::size_t sequence, std::size_t heads, std::size_t head_size, int direction) {
  const std::size_t half = head_size / 2;
  const C sign = direction < 0 ? C(-1) : C(1);
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    T* head = x + i * head_size;
    const std::size_t position = (i / heads) % sequence;
    for (std::size_t pair = 0; pair < half; ++pair) {
      const C cosine = cosines[position * half + pair];
      const C sine = sign * sines[position * half + pair];
      const C first = static_cast<C>(head[pair]);
      const C second = static_cast<C>(head[pair + half]);
      head[pair] = static_cast<T>(first * cosine - second * sine);
      head[pair + half] = static_cast<T>(second * cosine + first * sine);
    }
  };
  const std::size_t elements = rows * heads * head_size;
  ho::launch(stream, rows * heads, kernel,
             ho::work{.name = "rope",
                      .reads = {range(x, elements), range(cosines, sequence * half), range(sines, sequence * half)},
                      .writes = {range(x, elements)}});
}

template <class T>
void kernels<T>::swiglu(cudaStream_t stream, const T* gate, const T* up, T* act, std::size_t elements) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    const C g = static_cast<C>(gate[i]);
    act[i] = static_cast<T>(g / (C(1) + std::exp(-g)) * static_cast<C>(up[i]));
  };
  ho::launch(
      stream, elements, kernel,
      ho::work{
          .name = "swiglu", .reads = {range(gate, elements), range(up, elements)}, .writes = {range(act, elements)}});
}

template <class T>
void kernels<T>::swiglu_backward(cudaStream_t stream, const T* gate, const T* up, const T* d_act, T* d_gate, T* d_up,
                                 std::size_t elements) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    const C g = static_cast<C>(gate[i]);
    const C d = static_cast<C>(d_act[i]);
    const C sigmoid = C(1) / (C(1) + std::exp(-g));
    d_gate[i] = static_cast<T>(d * static_cast<C>(up[i]) * sigmoid * (C(1) + g * (C(1) - sigmoid)));
    d_up[i] = static_cast<T>(d * g * sigmoid);
  };
  ho::launch(stream, elements, kernel,
             ho::work{.name = "swiglu_backward",
                      .reads = {range(gate, elements), range(up, elements), range(d_act, elements)},
                      .writes = {range(d_gate, elements), range(d_up, elements)}});
}

namespace {

/// Largest logit of a row, and the sum of exp(logit - largest).
template <class C>
struct softmax_sum {
  template <class T>
  HOSTOFFLOAD_DEVICE softmax_sum(const ho::row_block& block, const T* row, std::size_t vocabulary) {
    C most = static_cast<C>(row[0]);
    for (std::size_t c = block.thread(); c < vocabulary; c += block.threads()) {
      const C value = static_cast<C>(row[c]);
      most = value > most ? value : most;
    }
    largest = block.max(most);
    C part = 0;
    for (std::size_t c = block.thread(); c < vocabulary; c += block.threads()) {
      part += std::exp(static_cast<C>(row[c]) - largest);
    }
    total = block.sum(part);
  }
  C largest, total;
};

}  // namespace

template <class T>
void kernels<T>::cross_entropy(cudaStream_t stream, const T* logits, const std::int32_t* targets, C* loss,
                               std::size_t rows, std::size_t vocabulary) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t row, ho::row_block block) {
    const T* in = logits + row * vocabulary;
    const softmax_sum<C> all(block, in, vocabulary);
    if (block.thread() == 0) loss[row] = std::log(all.total) + all.largest - static_cast<C>(in[targets[row]]);
  };
  ho::launch_rows(stream, rows, kernel,
                  ho::work{.name = "cross_entropy",
                           .reads = {range(logits, rows * vocabulary), range(targets, rows)},
                           .writes = {range(loss, rows)}});
}

template <class T>
void kernels<T>::cross_entropy_backward(cudaStream_t stream, T* logits, const std::int32_t* targets, double scale,
                                        std::size_t rows, std::size_t vocabulary) {
  const C factor = static_cast<C>(scale);
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t row, ho::row_block block) {
    T* inout = logits + row * vocabulary;
    const softmax_sum<C> all(block, inout, vocabulary);
    for (std::size_t c = block.thread(); c < vocabulary; c += block.threads()) {
      const C probability = std::exp(static_cast<C>(inout[c]) - all.largest) / all.total;
      const C wanted = c == static_cast<std::size_t>(targets[row]) ? C(1) : C(0);
      inout[c] = static_cast<T>(factor * (probability - wanted));
    }
  };
  ho::launch_rows(stream, rows, kernel,
                  ho::work{.name = "cross_entropy_backward",
                           .reads = {range(logits, rows * vocabulary), range(targets, rows)},
                           .writes = {range(logits, rows * vocabulary)}});
}

template <class T>
void kernels<T>::add_losses(cudaStream_t stream, const C* loss, double scale, double* total, std::size_t rows) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t, ho::row_block block) {
    double part = 0;
    for (std::size_t row = block.thread(); row < rows; row += block.threads()) part += static_cast<double>(loss[row]);
    const double all = block.sum(part);
    if (block.thread() == 0) *total += scale * all;
  };
  ho::launch_rows(
      stream, 1, kernel,
      ho::work{.name = "add_losses", .reads = {range(loss, rows), range(total, 1)}, .writes = {range(total, 1)}});
}

template struct kernels<float>;
template struct kernels<double>;
template struct kernels<bf16>;

}  // namespace examples
