#pragma once
// How large the named tensors are, and which of them a plan puts away.

#include "placements.hpp"
#include "sizes.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace moe {

/// Bytes of one tensor for `rows` tokens of which `routed` pairs of token and expert are computed; `element` of the
/// element type, `wide` of its compute_t. 0 where the layer has no such tensor.
inline std::size_t tensor_bytes(name tensor, const sizes& m, bool dense, std::size_t rows, std::size_t routed,
                                std::size_t element, std::size_t wide) {
  switch (tensor) {
    case name::input:
    case name::attention_out:
      return rows * m.hidden * element;
    case name::q_a:
      return rows * m.q_rank * element;
    case name::kv_a:
      return rows * m.kv_a_width() * element;
    case name::q:
    case name::k:
      return rows * m.query_width() * element;
    case name::v:
    case name::attention:
      return rows * m.value_width() * element;
    case name::lse:
      return rows * m.heads * wide;
    case name::probabilities:
      return dense ? 0 : rows * m.top_k * wide;
    case name::experts:
    case name::slots:
      return dense ? 0 : rows * m.top_k * sizeof(std::int32_t);
    case name::gate:
    case name::up:
    case name::act:
      return m.ffn_elements(dense, rows, routed) * element;
  }
  throw std::invalid_argument("no such tensor");
}

/// Calls f.operator()<name::input>() and so on, for each name in the order of making.
template <class F>
void for_each_name(const F& f) {
  [&]<name... Names>(std::integer_sequence<name, Names...>) { (f.template operator()<Names>(), ...); }
  (std::integer_sequence<name, name::input, name::q_a, name::kv_a, name::q, name::k, name::v, name::attention,
                         name::lse, name::attention_out, name::probabilities, name::experts, name::slots, name::gate,
                         name::up, name::act>{});
}

/// The tensors for which the plan's table makes this choice, as "q_a kv_a".
inline std::string names_with(plan p, ho::choice wanted) {
  return with_table(p, [&]<class Table>(std::type_identity<Table>) {
    std::string text;
    for_each_name([&]<name Tensor>() {
      using policy = typename Table::template of<Tensor>;
      if (policy::at({0, 1}) == wanted) text += (text.empty() ? "" : " ") + std::string(policy::name);
    });
    return text;
  });
}

/// Bytes of a layer's tensors for which the plan's table makes this choice.
inline std::size_t bytes_with(plan p, ho::choice wanted, const sizes& m, bool dense, std::size_t rows,
                              std::size_t routed, std::size_t element, std::size_t wide) {
  return with_table(p, [&]<class Table>(std::type_identity<Table>) {
    std::size_t bytes = 0;
    for_each_name([&]<name Tensor>() {
      if (Table::template of<Tensor>::at({0, 1}) != wanted) return;
      bytes += tensor_bytes(Tensor, m, dense, rows, routed, element, wide);
    });
    return bytes;
  });
}

}  // namespace moe
