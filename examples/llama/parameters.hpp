#pragma once
// What a Llama trains, and where each array lies.

#include "common.hpp"
#include "sizes.hpp"

#include "common/parameters.hpp"

#include <cstdint>
#include <vector>

namespace llama {

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

/// Defined for float, double and bf16.
template <class T>
class parameters : public examples::trained_arrays<T> {
public:
  using C = compute_t<T>;

  /// As trained_arrays. Waits for `stream`.
  parameters(const sizes& model, std::uint64_t seed, cudaStream_t stream);

  [[nodiscard]] const model_arrays<T>& weights() const { return weights_; }
  [[nodiscard]] const model_arrays<C>& gradients() const { return gradients_; }

private:
  model_arrays<T> weights_;
  model_arrays<C> gradients_;
};

}  // namespace llama
