#include "parameters.hpp"

#include <cmath>
#include <type_traits>

namespace llama {
namespace {

constexpr std::size_t alignment = 128;  // elements; 256 bytes of bf16

std::size_t elements(const std::vector<parameter>& list) {
  const std::size_t end = list.back().offset + list.back().size();
  return (end + alignment - 1) / alignment * alignment;
}

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

template <class T, class C>
void adamw(cudaStream_t stream, const parameter& p, const adamw_options& o, std::size_t number, T* weights, C* master,
           const C* gradients, C* first, C* second) {
  const C beta1 = static_cast<C>(o.beta1);
  const C beta2 = static_cast<C>(o.beta2);
  const C rate = static_cast<C>(o.learning_rate);
  const C decay = p.is_norm ? C(0) : static_cast<C>(o.weight_decay);
  const C epsilon = static_cast<C>(o.epsilon);
  const C correct1 = static_cast<C>(1 / (1 - std::pow(o.beta1, static_cast<double>(number))));
  const C correct2 = static_cast<C>(1 / (1 - std::pow(o.beta2, static_cast<double>(number))));
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    const C gradient = gradients[i];
    const C mean = beta1 * first[i] + (C(1) - beta1) * gradient;
    const C square = beta2 * second[i] + (C(1) - beta2) * gradient * gradient;
    first[i] = mean;
    second[i] = square;
    const C direction = mean * correct1 / (std::sqrt(square * correct2) + epsilon);
    const C value = master[i] - rate * (direction + decay * master[i]);
    master[i] = value;
    weights[i] = static_cast<T>(value);
  };
  const std::size_t n = p.size();
  ho::launch(stream, n, kernel,
             ho::work{.name = "adamw",
                      .reads = {range(gradients, n), range(first, n), range(second, n), range(master, n)},
                      .writes = {range(first, n), range(second, n), range(master, n), range(weights, n)}});
}

}  // namespace

std::vector<parameter> list_parameters(const sizes& m) {
  std::vector<parameter> list;
  std::size_t offset = 0;
  const auto add = [&](const std::string& name, std::size_t outputs, std::size_t inputs, bool is_norm,
                       double factor = 1) {
    const double spread = is_norm ? 0 : factor / std::sqrt(static_cast<double>(inputs));
    list.push_back({name, offset, outputs, inputs, is_norm, spread});
    offset += (outputs * inputs + alignment - 1) / alignment * alignment;
  };
  const double residual =
      1 / std::sqrt(2 * static_cast<double>(m.layers));  // keeps the residual stream's size at any depth
  add("embedding", m.vocabulary, m.hidden, false);
  for (std::size_t i = 0; i < m.layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    add(layer + "attention_norm", 1, m.hidden, true);
    add(layer + "q", m.hidden, m.hidden, false);
    add(layer + "k", m.kv_width(), m.hidden, false);
    add(layer + "v", m.kv_width(), m.hidden, false);
    add(layer + "out", m.hidden, m.hidden, false, residual);
    add(layer + "ffn_norm", 1, m.hidden, true);
    add(layer + "gate", m.ffn, m.hidden, false);
    add(layer + "up", m.ffn, m.hidden, false);
    add(layer + "down", m.hidden, m.ffn, false, residual);
  }
  add("norm", 1, m.hidden, true);
  if (!m.tied) add("head", m.vocabulary, m.hidden, false);
  return list;
}

template <class T>
parameters<T>::parameters(const sizes& model, std::uint64_t seed, cudaStream_t stream)
    : list_(list_parameters(model)),
      weights_(elements(list_)),
      gradients_(elements(list_)),
      first_(elements(list_)),
      second_(elements(list_)),
      weight_arrays_(place(model, list_, weights_.data())),
      gradient_arrays_(place(model, list_, gradients_.data())) {
  if constexpr (!std::is_same_v<T, C>) master_.emplace(elements(list_));
  std::vector<C> start(elements(list_));
  for (const parameter& p : list_) {
    random numbers(seed ^ (p.offset * 0x9e3779b97f4a7c15U));
    for (std::size_t i = 0; i < p.size(); ++i) {
      start[p.offset + i] = p.is_norm ? C(1) : static_cast<C>(p.spread * numbers.normal());
    }
  }
  set_values(start, stream);
  gradients_.zero(stream);
  first_.zero(stream);
  second_.zero(stream);
}

template <class T>
void parameters<T>::update(const adamw_options& options, std::size_t number, cudaStream_t stream) {
  for (const parameter& p : list_) {
    T* weights = weights_.data() + p.offset;
    C* master = nullptr;
    if constexpr (std::is_same_v<T, C>) {
      master = weights;
    } else {
      master = master_->data() + p.offset;
    }
    adamw(stream, p, options, number, weights, master, gradients_.data() + p.offset, first_.data() + p.offset,
          second_.data() + p.offset);
  }
}

template <class T>
std::vector<compute_t<T>> parameters<T>::values(cudaStream_t stream) const {
  if constexpr (std::is_same_v<T, C>) {
    return weights_.to_host(stream);
  } else {
    return master_->to_host(stream);
  }
}

template <class T>
void parameters<T>::set_values(std::span<const C> values, cudaStream_t stream) {
  if constexpr (std::is_same_v<T, C>) {
    weights_.from_host(values, stream);
  } else {
    std::vector<T> rounded(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) rounded[i] = static_cast<T>(values[i]);
    weights_.from_host(rounded, stream);
    master_->from_host(values, stream);
  }
}

template class parameters<float>;
template class parameters<double>;
template class parameters<bf16>;

}  // namespace llama
