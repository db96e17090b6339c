#include "parameters.hpp"

#include <cmath>

namespace llama {
namespace {

/// In the order of list_parameters.
template <class P>
model_arrays<P> place(const sizes& model, const std::vector<parameter>& list, P* base) {
  auto next = list.begin();
  const auto take = [&] { return base + (next++)->offset; };
  model_arrays<P> all{take(), {}, nullptr, nullptr};
  for (std::size_t i = 0; i < model.layers; ++i) {
    all.layers.push_back(layer_arrays<P>{take(), take(), take(), take(), take(), take(), take(), take(), take()});
  }
  all.norm = take();
  all.head = model.tied ? all.embedding : take();
  return all;
}

}  // namespace

std::vector<parameter> list_parameters(const sizes& m) {
  examples::parameter_list list;
  const double residual =
      1 / std::sqrt(2 * static_cast<double>(m.layers));  // keeps the residual stream's size at any depth
  list.matrix("embedding", m.vocabulary, m.hidden);
  for (std::size_t i = 0; i < m.layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    list.norm(layer + "attention_norm", m.hidden);
    list.matrix(layer + "q", m.hidden, m.hidden);
    list.matrix(layer + "k", m.kv_width(), m.hidden);
    list.matrix(layer + "v", m.kv_width(), m.hidden);
    list.matrix(layer + "out", m.hidden, m.hidden, residual);
    list.norm(layer + "ffn_norm", m.hidden);
    list.matrix(layer + "gate", m.ffn, m.hidden);
    list.matrix(layer + "up", m.ffn, m.hidden);
    list.matrix(layer + "down", m.hidden, m.ffn, residual);
  }
  list.norm("norm", m.hidden);
  if (!m.tied) list.matrix("head", m.vocabulary, m.hidden);
  return list.take();
}

template <class T>
parameters<T>::parameters(const sizes& model, std::uint64_t seed, cudaStream_t stream)
    : examples::trained_arrays<T>(list_parameters(model), seed, stream),
      weights_(place(model, this->list(), this->weight_data())),
      gradients_(place(model, this->list(), this->gradient_data())) {}

template class parameters<float>;
template class parameters<double>;
template class parameters<bf16>;

}  // namespace llama
