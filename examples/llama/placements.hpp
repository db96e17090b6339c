#pragma once
// The one place that decides where the tensors of the backward pass stay. A trainer has one such table; this example
// has several, to compare them.

#include <hostoffload/placement.hpp>

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace llama {

namespace ho = hostoffload;

/// A layer's tensors in the order in which they are made. `attention_out` is the residual stream behind the attention,
/// `input` of the next layer the one behind the feed-forward block; gate and up are taken before the activation.
enum class name { input, q, k, v, attention, lse, attention_out, gate, up, act };

namespace placements {

using save = ho::placement<name, ho::save_these<name::input, name::q, name::k, name::v, name::attention, name::lse,
                                                name::attention_out, name::gate, name::up, name::act>>;

using offload = ho::placement<
    name, ho::save_these<name::input, name::attention_out>,
    ho::offload_these<name::q, name::k, name::v, name::attention, name::lse, name::gate, name::up, name::act>>;

using remat = ho::placement<
    name, ho::save_these<name::input, name::attention_out>,
    ho::remat_these<name::q, name::k, name::v, name::attention, name::lse, name::gate, name::up, name::act>>;

using mixed =
    ho::placement<name, ho::save_these<name::input, name::attention, name::lse, name::attention_out>,
                  ho::offload_these<name::q, name::k, name::v, name::gate, name::up>, ho::remat_these<name::act>>;

}  // namespace placements

/// What --placement takes. offload_naive is offload with every copy in the compute stream's way.
enum class plan { save, offload, remat, offload_naive, mixed };
inline constexpr std::array all_plans{plan::save, plan::offload, plan::remat, plan::offload_naive, plan::mixed};

constexpr std::string_view to_string(plan p) {
  constexpr std::array<std::string_view, 5> text{"save", "offload", "remat", "offload-naive", "mixed"};
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
  }
  throw std::invalid_argument("no such placement");
}

namespace detail {

template <class Table, name... Names>
std::string names_with(ho::choice wanted) {
  std::string text;
  const auto add = [&](ho::choice chosen, std::string_view tensor) {
    if (chosen != wanted) return;
    text += text.empty() ? "" : " ";
    text += tensor;
  };
  (add(Table::template of<Names>::at({0, 1}), Table::template of<Names>::name), ...);
  return text;
}

}  // namespace detail

/// The tensors for which the plan's table makes this choice, as "q k v".
inline std::string names_with(plan p, ho::choice wanted) {
  return with_table(p, [&]<class Table>(std::type_identity<Table>) {
    return detail::names_with<Table, name::input, name::q, name::k, name::v, name::attention, name::lse,
                              name::attention_out, name::gate, name::up, name::act>(wanted);
  });
}

}  // namespace llama
