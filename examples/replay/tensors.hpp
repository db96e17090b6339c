#pragma once
// The tensors of a layer that the backward pass needs, in the order in which they are made.

#include <hostoffload/placement.hpp>

#include <array>
#include <bitset>
#include <cstddef>
#include <string_view>

namespace replay {

/// `attention` is the context, `routed` the rows that this device's experts work on, gate and up those of all experts
/// that a token passes. Layers without latent attention have no q_a and kv_a, layers without experts no router and
/// routed.
enum class tensor { input, q_a, kv_a, q, k, v, attention, lse, attention_out, router, routed, gate, up, act };

inline constexpr std::array all_tensors{
    tensor::input, tensor::q_a,           tensor::kv_a,   tensor::q,      tensor::k,    tensor::v,  tensor::attention,
    tensor::lse,   tensor::attention_out, tensor::router, tensor::routed, tensor::gate, tensor::up, tensor::act};

constexpr std::size_t index_of(tensor t) { return static_cast<std::size_t>(t); }

constexpr std::string_view to_string(tensor t) {
  constexpr std::array<std::string_view, all_tensors.size()> text{
      "input", "q_a",           "kv_a",   "q",      "k",    "v",  "attention",
      "lse",   "attention_out", "router", "routed", "gate", "up", "act"};
  return text.at(index_of(t));
}

class tensor_set {
public:
  tensor_set() = default;
  tensor_set(std::initializer_list<tensor> members) {
    for (const tensor t : members) add(t);
  }
  void add(tensor t) { bits_.set(index_of(t)); }
  [[nodiscard]] bool has(tensor t) const { return bits_.test(index_of(t)); }
  [[nodiscard]] bool empty() const { return bits_.none(); }
  friend bool operator==(const tensor_set&, const tensor_set&) = default;

private:
  std::bitset<all_tensors.size()> bits_;
};

/// Where each tensor stays between forward and backward.
using placements = std::array<hostoffload::choice, all_tensors.size()>;

}  // namespace replay
