#pragma once
// The first half of a layer: latent attention, forward and backward.

#include "latent.hpp"
#include "layer.hpp"
#include "parameters.hpp"

#include "common/attention.hpp"
#include "common/kernels.hpp"
#include "common/matmul.hpp"

#include <cstddef>
#include <span>
#include <utility>

namespace moe {

/// What both halves of a layer work with.
template <class T>
struct layer_run {
  sizes shape;
  std::size_t rows;
  cudaStream_t stream;
  const examples::blas_context& blas;
  workspace<T>& work;

  [[nodiscard]] examples::norm_shape norm() const { return {rows, shape.hidden, norm_epsilon}; }
};

template <class T, class Table>
class attention_block {
public:
  using C = examples::compute_t<T>;
  using layer_t = layer<T, Table>;

  explicit attention_block(const layer_run<T>& run) : run_(run) {}

  /// How the layer's tensors from q_a to attention_out are made.
  void define(layer_t& l, const layer_arrays<T>& w) {
    const auto make_down = [this, &l, &w](std::span<T> q_a, std::span<T> kv_a) -> ho::task<> {
      auto x = co_await l.input;
      kernel::rms_norm(run_.stream, run_.norm(), x.data(), w.attention_norm, work().normed.data(), work().rstd.data());
      linear::forward(run_.blas, to_q_a(), work().normed.data(), w.q_a, q_a.data());
      linear::forward(run_.blas, to_kv_a(), work().normed.data(), w.kv_a, kv_a.data());
    };
    ho::define_group(make_down, l.q_a, l.kv_a);

    l.q.define([this, &l, &w](std::span<T> q) -> ho::task<> {
      auto q_a = co_await l.q_a;
      norm_q(q_a.data(), w);
      linear::forward(run_.blas, to_q(), work().q_normed.data(), w.q_b, q.data());
      latent<T>::rotate_queries(run_.stream, heads(), work().cosines.data(), work().sines.data(), q.data(), 1);
    });

    const auto make_keys_values = [this, &l, &w](std::span<T> k, std::span<T> v) -> ho::task<> {
      auto kv_a = co_await l.kv_a;
      norm_kv(kv_a.data(), w);
      linear::forward(run_.blas, to_kv(), work().kv_normed.data(), w.kv_b, work().kv_b.data());
      latent<T>::split(run_.stream, heads(), work().cosines.data(), work().sines.data(), kv_a.data(),
                       work().kv_b.data(), k.data(), v.data());
    };
    ho::define_group(make_keys_values, l.k, l.v);

    const auto make_attention = [this, &l](std::span<T> context, std::span<C> lse) -> ho::task<> {
      auto q = co_await l.q;
      auto k = co_await l.k;
      auto v = co_await l.v;
      flash::forward(run_.stream, scores(), q.data(), k.data(), v.data(), context.data(), lse.data());
    };
    ho::define_group(make_attention, l.attention, l.lse);

    l.attention_out.define([this, &l, &w](std::span<T> out) -> ho::task<> {
      auto context = co_await l.attention;
      auto x = co_await l.input;
      linear::forward(run_.blas, to_hidden(), context.data(), w.out, out.data(), x.data());
    });
  }

  /// d_stream: from behind the attention to the layer's input.
  ho::task<> backward(layer_t& l, const layer_arrays<T>& w, const layer_arrays<C>& g) {
    {
      auto context = co_await std::move(l.attention);
      auto lse = co_await std::move(l.lse);
      linear::backward_weight(run_.blas, to_hidden(), work().d_stream.data(), context.data(), g.out);
      linear::backward_input(run_.blas, to_hidden(), work().d_stream.data(), w.out, work().d_attention.data());
      auto q = co_await std::move(l.q);
      auto k = co_await std::move(l.k);
      auto v = co_await std::move(l.v);
      flash::backward(run_.stream, scores(), q.data(), k.data(), v.data(), context.data(), lse.data(),
                      work().d_attention.data(), work().delta.data(), work().d_q.data(), work().d_k.data(),
                      work().d_v.data());
    }
    {
      auto q_a = co_await std::move(l.q_a);
      latent<T>::rotate_queries(run_.stream, heads(), work().cosines.data(), work().sines.data(), work().d_q.data(),
                                -1);
      norm_q(q_a.data(), w);
      linear::backward_weight(run_.blas, to_q(), work().d_q.data(), work().q_normed.data(), g.q_b);
      linear::backward_input(run_.blas, to_q(), work().d_q.data(), w.q_b, work().q_normed.data());
      work().d_q_a.zero(run_.stream);
      kernel::rms_norm_backward(run_.stream, q_norm(), work().q_normed.data(), q_a.data(), w.q_norm, work().rstd.data(),
                                work().d_q_a.data(), g.q_norm);
    }
    {
      auto kv_a = co_await std::move(l.kv_a);
      latent<T>::split_backward(run_.stream, heads(), work().cosines.data(), work().sines.data(), work().d_k.data(),
                                work().d_v.data(), work().d_kv_a.data(), work().kv_b.data());
      norm_kv(kv_a.data(), w);
      linear::backward_weight(run_.blas, to_kv(), work().kv_b.data(), work().kv_normed.data(), g.kv_b);
      linear::backward_input(run_.blas, to_kv(), work().kv_b.data(), w.kv_b, work().kv_normed.data());
      kernel::rms_norm_backward(run_.stream, kv_norm(), work().kv_normed.data(), kv_a.data(), w.kv_norm,
                                work().rstd.data(), work().d_kv_a.data(), g.kv_norm);
    }
    auto x = co_await std::move(l.input);
    kernel::rms_norm(run_.stream, run_.norm(), x.data(), w.attention_norm, work().normed.data(), work().rstd.data());
    linear::backward_weight(run_.blas, to_q_a(), work().d_q_a.data(), work().normed.data(), g.q_a);
    linear::backward_weight(run_.blas, to_kv_a(), work().d_kv_a.data(), work().normed.data(), g.kv_a);
    linear::backward_input(run_.blas, to_q_a(), work().d_q_a.data(), w.q_a, work().d_normed.data());
    linear::backward_input(run_.blas, to_kv_a(), work().d_kv_a.data(), w.kv_a, work().d_normed.data(), true);
    kernel::rms_norm_backward(run_.stream, run_.norm(), work().d_normed.data(), x.data(), w.attention_norm,
                              work().rstd.data(), work().d_stream.data(), g.attention_norm);
  }

private:
  using kernel = examples::kernels<T>;
  using linear = examples::matmul<T>;
  using flash = examples::attention<T>;
  using shape_t = typename linear::shape;

  [[nodiscard]] workspace<T>& work() const { return run_.work; }
  [[nodiscard]] const sizes& shape() const { return run_.shape; }
  [[nodiscard]] shape_t to_q_a() const { return {run_.rows, shape().hidden, shape().q_rank}; }
  [[nodiscard]] shape_t to_q() const { return {run_.rows, shape().q_rank, shape().query_width()}; }
  [[nodiscard]] shape_t to_kv_a() const { return {run_.rows, shape().hidden, shape().kv_a_width()}; }
  [[nodiscard]] shape_t to_kv() const { return {run_.rows, shape().kv_rank, shape().kv_b_width()}; }
  [[nodiscard]] shape_t to_hidden() const { return {run_.rows, shape().value_width(), shape().hidden}; }
  [[nodiscard]] examples::norm_shape q_norm() const { return {run_.rows, shape().q_rank, norm_epsilon}; }
  [[nodiscard]] examples::norm_shape kv_norm() const {
    return {run_.rows, shape().kv_rank, norm_epsilon, shape().kv_a_width()};
  }
  [[nodiscard]] latent_shape heads() const {
    return {run_.rows, shape().sequence, shape().heads, shape().kv_rank, shape().nope, shape().rope, shape().value};
  }
  [[nodiscard]] examples::attention_shape scores() const {
    return {run_.rows, shape().sequence, shape().heads, shape().heads, shape().key(), shape().value};
  }

  void norm_q(const T* q_a, const layer_arrays<T>& w) {
    kernel::rms_norm(run_.stream, q_norm(), q_a, w.q_norm, work().q_normed.data(), work().rstd.data());
  }
  void norm_kv(const T* kv_a, const layer_arrays<T>& w) {
    kernel::rms_norm(run_.stream, kv_norm(), kv_a, w.kv_norm, work().kv_normed.data(), work().rstd.data());
  }

  layer_run<T> run_;
};

}  // namespace moe
