#pragma once
// The one place that decides where the tensors of the backward pass stay. A trainer has one such table; this example
// has several, to compare them.

#include <hostoffload/placement.hpp>

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace moe {

namespace ho = hostoffload;

/// A layer's tensors in the order in which they are made. `q_a` and `kv_a` are the down-projections before their norms;
/// `attention_out` is the residual stream behind the attention; `probabilities`, `experts` and `slots` are what the
/// router decided for each pair of token and expert; gate and up, of the shared and the routed experts or of the dense
/// block, are taken before the activation.
enum class name {
  input,
  q_a,
  kv_a,
  q,
  k,
  v,
  attention,
  lse,
  attention_out,
  probabilities,
  experts,
  slots,
  gate,
  up,
  act
};

namespace placements {

using save = ho::placement<name, ho::save_these<name::input, name::q_a, name::kv_a, name::q, name::k, name::v,
                                                name::attention, name::lse, name::attention_out, name::probabilities,
                                                name::experts, name::slots, name::gate, name::up, name::act>>;

using offload =
    ho::placement<name, ho::save_these<name::input, name::attention_out>,
                  ho::offload_these<name::q_a, name::kv_a, name::q, name::k, name::v, name::attention, name::lse,
                                    name::probabilities, name::experts, name::slots, name::gate, name::up, name::act>>;

using remat =
    ho::placement<name, ho::save_these<name::input, name::attention_out>,
                  ho::remat_these<name::q_a, name::kv_a, name::q, name::k, name::v, name::attention, name::lse,
                                  name::probabilities, name::experts, name::slots, name::gate, name::up, name::act>>;

using mixed =
    ho::placement<name,
                  ho::save_these<name::input, name::attention_out, name::probabilities, name::experts, name::slots>,
                  ho::offload_these<name::q_a, name::kv_a, name::attention, name::lse, name::gate, name::up>,
                  ho::remat_these<name::q, name::k, name::v, name::act>>;

/// NVIDIA's for DeepSeek-V3 in MaxText: layer inputs stay, the two down-projections, gate and up go to the host, all
/// else is computed again.
using deepseek =
    ho::placement<name, ho::save_these<name::input>, ho::offload_these<name::q_a, name::kv_a, name::gate, name::up>,
                  ho::remat_these<name::q, name::k, name::v, name::attention, name::lse, name::attention_out,
                                  name::probabilities, name::experts, name::slots, name::act>>;

}  // namespace placements

/// What --placement takes. offload_naive is offload with every copy in the compute stream's way.
enum class plan { save, offload, remat, offload_naive, mixed, deepseek };
inline constexpr std::array all_plans{plan::save,          plan::offload, plan::remat,
                                      plan::offload_naive, plan::mixed,   plan::deepseek};

constexpr std::string_view to_string(plan p) {
  constexpr std::array<std::string_view, 6> text{"save", "offload", "remat", "offload-naive", "mixed", "deepseek"};
  return text.at(static_cast<std::size_t>(p));
}

/// Calls f(std::type_identity<table>) with the table of the plan.
template <class F>
decltype(auto) with_table(plan p, F&& f) {
  switch (p) {
    case plan::save:
      return f(std::type_identity<placements::save>{});
    case plan::offload:
    case plan::offload_naive:
      return f(std::type_identity<placements::offload>{});
    case plan::remat:
      return f(std::type_identity<placements::remat>{});
    case plan::mixed:
      return f(std::type_identity<placements::mixed>{});
    case plan::deepseek:
      return f(std::type_identity<placements::deepseek>{});
  }
  throw std::invalid_argument("no such placement");
}

}  // namespace moe
