#include "parameters.hpp"

#include <cmath>

namespace moe {

namespace {

std::string layer_name(std::size_t i) { return "layers." + std::to_string(i) + "."; }

}  // namespace

std::vector<examples::parameter> list_parameters(const sizes& m) {
  examples::parameter_list list;
  const double residual =
      1 / std::sqrt(2 * static_cast<double>(m.layers));  // keeps the residual stream's size at any depth
  const auto ffn = [&](const std::string& name, std::size_t width, double factor) {
    list.matrix(name + "gate", width, m.hidden);
    list.matrix(name + "up", width, m.hidden);
    list.matrix(name + "down", m.hidden, width, factor);
  };
  list.matrix("embedding", m.vocabulary, m.hidden);
  for (std::size_t i = 0; i < m.layers; ++i) {
    const std::string layer = layer_name(i);
    list.norm(layer + "attention_norm", m.hidden);
    list.matrix(layer + "q_a", m.q_rank, m.hidden);
    list.norm(layer + "q_norm", m.q_rank);
    list.matrix(layer + "q_b", m.query_width(), m.q_rank);
    list.matrix(layer + "kv_a", m.kv_a_width(), m.hidden);
    list.norm(layer + "kv_norm", m.kv_rank);
    list.matrix(layer + "kv_b", m.kv_b_width(), m.kv_rank);
    list.matrix(layer + "out", m.hidden, m.value_width(), residual);
    list.norm(layer + "ffn_norm", m.hidden);
    if (m.is_dense(i)) {
      ffn(layer, m.dense_ffn, residual);
      continue;
    }
    list.matrix(layer + "router", m.experts, m.hidden);
    list.bias(layer + "bias", m.experts);
    ffn(layer + "shared.", m.shared_ffn(), residual);
    const double share = residual / std::sqrt(static_cast<double>(m.top_k));
    for (std::size_t e = 0; e < m.experts; ++e) ffn(layer + "experts." + std::to_string(e) + ".", m.expert_ffn, share);
  }
  list.norm("norm", m.hidden);
  list.matrix("head", m.vocabulary, m.hidden);
  return list.take();
}

template <class P>
model_arrays<P> place(const sizes& m, const std::vector<examples::parameter>& list, P* base) {
  auto next = list.begin();
  const auto take = [&] { return base + (next++)->offset; };
  const auto take_ffn = [&] { return ffn_arrays<P>{take(), take(), take()}; };
  model_arrays<P> all{take(), {}, nullptr, nullptr};
  for (std::size_t i = 0; i < m.layers; ++i) {
    layer_arrays<P> l{take(), take(), take(), take(), take(), take(), take(), take(), take(), nullptr, nullptr, {}, {}};
    if (!m.is_dense(i)) {
      l.router = take();
      l.bias = take();
    }
    l.ffn = take_ffn();
    if (!m.is_dense(i)) {
      for (std::size_t e = 0; e < m.experts; ++e) l.experts.push_back(take_ffn());
    }
    all.layers.push_back(l);
  }
  all.norm = take();
  all.head = take();
  return all;
}

template <class T>
parameters<T>::parameters(const sizes& model, std::uint64_t seed, cudaStream_t stream)
    : examples::trained_arrays<T>(list_parameters(model), seed, stream),
      weights_(place(model, this->list(), this->weight_data())),
      gradients_(place(model, this->list(), this->gradient_data())) {
  const model_arrays<C> masters = place(model, this->list(), this->master_data());
  for (const layer_arrays<C>& l : masters.layers) biases_.push_back(l.bias);
}

template model_arrays<float> place(const sizes&, const std::vector<examples::parameter>&, float*);
template model_arrays<double> place(const sizes&, const std::vector<examples::parameter>&, double*);
template model_arrays<examples::bf16> place(const sizes&, const std::vector<examples::parameter>&, examples::bf16*);
template class parameters<float>;
template class parameters<double>;
template class parameters<examples::bf16>;

}  // namespace moe
