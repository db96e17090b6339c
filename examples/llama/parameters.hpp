#pragma once
// The trained arrays: weights in the element type, and in compute_t gradients, AdamW's two moments and, for bf16, the
// master copy of the weights. Each kind lies in one allocation, all in the same order.

#include "common.hpp"
#include "sizes.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llama {

/// One array, [outputs, inputs] row-major or [inputs]. `offset` in elements from the start of its kind's allocation.
struct parameter {
  std::string name;
  std::size_t offset, outputs, inputs;
  bool is_norm;
  double spread;  // standard deviation at the start; norms start at 1
  [[nodiscard]] std::size_t size() const { return outputs * inputs; }
};

template <class P>
struct layer_arrays {
  P *attention_norm, *q, *k, *v, *out, *ffn_norm, *gate, *up, *down;
};

template <class P>
struct model_arrays {
  P* embedding;
  std::vector<layer_arrays<P>> layers;
  P* norm;
  P* head;  // the embedding where they are tied
};

std::vector<parameter> list_parameters(const sizes& model);

/// Decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101); norms do not decay.
struct adamw_options {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
};

/// Defined for float, double and bf16.
template <class T>
class parameters {
public:
  using C = compute_t<T>;

  /// Normal deviates from `seed`, the same for every element type. Waits for `stream`.
  parameters(const sizes& model, std::uint64_t seed, cudaStream_t stream);

  [[nodiscard]] const std::vector<parameter>& list() const { return list_; }
  [[nodiscard]] const model_arrays<T>& weights() const { return weight_arrays_; }
  [[nodiscard]] const model_arrays<C>& gradients() const { return gradient_arrays_; }

  void zero_gradients(cudaStream_t stream) { gradients_.zero(stream); }

  /// Step `number` counts from 1.
  void update(const adamw_options& options, std::size_t number, cudaStream_t stream);

  /// The following wait for `stream`. Values are the master copy, in the order of list() with its gaps.
  [[nodiscard]] std::vector<C> values(cudaStream_t stream) const;
  [[nodiscard]] std::vector<C> gradient_values(cudaStream_t stream) const { return gradients_.to_host(stream); }
  void set_values(std::span<const C> values, cudaStream_t stream);

private:
  std::vector<parameter> list_;
  device_array<T> weights_;
  device_array<C> gradients_;
  device_array<C> first_;
  device_array<C> second_;
  std::optional<device_array<C>> master_;  // bf16 only
  model_arrays<T> weight_arrays_;
  model_arrays<C> gradient_arrays_;
};

}  // namespace llama
