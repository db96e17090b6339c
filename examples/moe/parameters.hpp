#pragma once
// What the model trains, and where each array lies.

#include "sizes.hpp"

#include "common/parameters.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace moe {

/// A SwiGLU block: gate and up are [ffn, hidden], down [hidden, ffn].
template <class P>
struct ffn_arrays {
  P *gate, *up, *down;
};

template <class P>
struct layer_arrays {
  P *attention_norm, *q_a, *q_norm, *q_b, *kv_a, *kv_norm, *kv_b, *out, *ffn_norm;
  P *router, *bias;                    // null in a dense layer
  ffn_arrays<P> ffn;                   // the dense block, or the shared experts side by side
  std::vector<ffn_arrays<P>> experts;  // routed to
};

template <class P>
struct model_arrays {
  P* embedding;
  std::vector<layer_arrays<P>> layers;
  P *norm, *head;
};

std::vector<examples::parameter> list_parameters(const sizes& model);

/// In the order of list_parameters, whose offsets are counted from `base`.
template <class P>
model_arrays<P> place(const sizes& model, const std::vector<examples::parameter>& list, P* base);

/// Defined for float, double and bf16.
template <class T>
class parameters : public examples::trained_arrays<T> {
public:
  using C = examples::compute_t<T>;

  /// As trained_arrays. Waits for `stream`.
  parameters(const sizes& model, std::uint64_t seed, cudaStream_t stream);

  [[nodiscard]] const model_arrays<T>& weights() const { return weights_; }
  [[nodiscard]] const model_arrays<C>& gradients() const { return gradients_; }
  /// Of each layer's router, null in dense ones: read in full precision.
  [[nodiscard]] const std::vector<C*>& biases() const { return biases_; }

private:
  model_arrays<T> weights_;
  model_arrays<C> gradients_;
  std::vector<C*> biases_;
};

}  // namespace moe
