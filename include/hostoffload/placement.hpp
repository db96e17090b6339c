#pragma once
// Where each tensor of the backward pass stays between forward and backward, decided in one table and checked when the
// program is compiled. No CUDA here.
//
//   enum class name { q, k, v, act };
//   using table = ho::placement<name, ho::offload_these<name::q, name::k, name::v>, ho::remat_these<name::act>>;
//   ho::offload_tensor<bf16, table::of<name::q>> q;
//
// A name in no rule, or in two for the same layer, does not compile; the message names it and says what to do.

#include <hostoffload/errors.hpp>
#include <hostoffload/placement_names.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hostoffload::inline v0 {

/// save: stays in GPU memory. offload: copied to pinned host memory and back. remat: dropped and computed again.
/// The other two offload while host memory lasts and then save or rematerialise; the report says which tensors did.
/// With scheduler_options::plan, offload_or_remat leaves more to the plan: where the copies of a step cannot be hidden
/// behind its kernels, those are dropped and computed again, within the window, with which the predicted step is least.
enum class choice : std::uint8_t { save, offload, remat, offload_or_save, offload_or_remat };

[[nodiscard]] constexpr std::string_view to_string(choice c) noexcept {
  constexpr std::array<std::string_view, 5> text{"save", "offload", "remat", "offload_or_save", "offload_or_remat"};
  return text.at(static_cast<std::size_t>(c));
}

/// The place of a tensor in the model: rules that hold for some layers only are decided by it.
struct layer_position {
  std::size_t index = 0;
  std::size_t count = 1;
};

/// Bound of a layer range: behind the last layer.
inline constexpr int end = std::numeric_limits<int>::max();

/// Layers from `First` up to, not including, `Last`; negative bounds count from the end, as in Python's slices.
template <int First, int Last>
struct layer_range {
  [[nodiscard]] static constexpr bool contains(layer_position at) noexcept {
    const auto index = static_cast<std::int64_t>(at.index);
    return index >= bound(First, at.count) && index < bound(Last, at.count);
  }

  /// Largest distance of a bound from the end it is counted from: beyond it, one more layer changes nothing.
  static constexpr int reach = [] {
    constexpr auto distance = [](int b) { return b == end ? 0 : (b < 0 ? -b : b); };
    return distance(First) > distance(Last) ? distance(First) : distance(Last);
  }();

private:
  static constexpr std::int64_t bound(int b, std::size_t count) noexcept {
    if (b == end) return static_cast<std::int64_t>(count);
    return b < 0 ? static_cast<std::int64_t>(count) + b : b;
  }
};

/// One line of the table: what happens to the named tensors, in the given layers.
template <choice Choice, class Layers, auto... Names>
struct rule {
  static_assert(sizeof...(Names) > 0,
                "hostoffload: a rule without names has no effect: name a tensor or drop the rule");
  using layers = Layers;
  static constexpr choice tag = Choice;
};

template <auto... Names>
using save_these = rule<choice::save, layer_range<0, end>, Names...>;
template <auto... Names>
using offload_these = rule<choice::offload, layer_range<0, end>, Names...>;
template <auto... Names>
using remat_these = rule<choice::remat, layer_range<0, end>, Names...>;
template <auto... Names>
using offload_or_save_these = rule<choice::offload_or_save, layer_range<0, end>, Names...>;
template <auto... Names>
using offload_or_remat_these = rule<choice::offload_or_remat, layer_range<0, end>, Names...>;

namespace detail {
template <int First, int Last, class Rule>
struct restricted;
template <int First, int Last, choice Choice, auto... Names>
struct restricted<First, Last, rule<Choice, layer_range<0, end>, Names...>> {
  using type = rule<Choice, layer_range<First, Last>, Names...>;
};
}  // namespace detail

/// The rule for some layers only: on_layers<0, -1, offload_these<name::q>>, on_layers<-1, end, save_these<name::q>>.
template <int First, int Last, class Rule>
using on_layers = typename detail::restricted<First, Last, Rule>::type;

namespace detail {

template <auto Name, class Rule>
struct rule_for {  // how one rule looks from one name
  static constexpr bool names_it = false;
};
template <auto Name, choice Choice, class Layers, auto... Names>
struct rule_for<Name, rule<Choice, Layers, Names...>> {
  template <auto Other>
  static constexpr bool is_same() {
    if constexpr (std::is_same_v<decltype(Name), decltype(Other)>) return Name == Other;
    return false;
  }
  static constexpr bool names_it = (is_same<Names>() || ...);
};

template <class Rule>
struct is_rule : std::false_type {};
template <choice Choice, class Layers, auto... Names>
struct is_rule<rule<Choice, Layers, Names...>> : std::true_type {};

template <class Names, class Rule>
struct is_over : std::false_type {};
template <class Names, choice Choice, class Layers, auto... Listed>
struct is_over<Names, rule<Choice, Layers, Listed...>>
    : std::bool_constant<(std::is_same_v<Names, decltype(Listed)> && ...)> {};

template <auto Name, class... Rules>
constexpr std::size_t rules_at(layer_position at) {
  return ((rule_for<Name, Rules>::names_it && Rules::layers::contains(at) ? std::size_t{1} : std::size_t{0}) + ... +
          0U);
}

/// The fewest and the most rules that name it in any layer of any model with enough layers for ranges from the two ends
/// not to meet; smaller models are checked when their tensors are built.
template <auto Name, class... Rules>
constexpr std::pair<std::size_t, std::size_t> rules_per_layer() {
  std::size_t fewest = sizeof...(Rules);
  std::size_t most = 0;
  constexpr auto reach = static_cast<std::size_t>((Rules::layers::reach + ... + 1));
  for (std::size_t count = reach; count <= reach + 1; ++count) {
    for (std::size_t index = 0; index < count; ++index) {
      const std::size_t rules = rules_at<Name, Rules...>({index, count});
      fewest = rules < fewest ? rules : fewest;
      most = rules > most ? rules : most;
    }
  }
  return {fewest, most};
}

template <auto Tensor, class... Rules>
struct check_tensor {
  static constexpr auto found = rules_per_layer<Tensor, Rules...>();
  static constexpr bool never = found.second == 0;
  static_assert(!never,
                "hostoffload: this tensor is in no rule of the placement (its name stands above as check_tensor's "
                "first argument): add it to save_these, offload_these or remat_these");
  static_assert(never || found.first >= 1,
                "hostoffload: this tensor is in no rule for some layers (its name stands above as "
                "check_tensor's first argument): close the gap between its on_layers ranges");
  static_assert(found.second <= 1,
                "hostoffload: this tensor is in two rules for the same layer (its name stands above as "
                "check_tensor's first argument): leave it in one, or make the on_layers ranges disjoint");
};

template <class Names, class Rule>
struct check_rule {
  static_assert(is_rule<Rule>::value,
                "hostoffload: placement takes rules: save_these, offload_these, remat_these, offload_or_save_these, "
                "offload_or_remat_these, on_layers");
  static_assert(
      !is_rule<Rule>::value || is_over<Names, Rule>::value,
      "hostoffload: this rule lists names of another enumeration than the placement's first argument: use one enum "
      "class for all tensors of the model");
};

template <class Names, class Indices, class... Rules>
struct check_table;
template <class Names, std::size_t... I, class... Rules>
struct check_table<Names, std::index_sequence<I...>, Rules...> : check_rule<Names, Rules>...,
                                                                 check_tensor<enumerators<Names>[I], Rules...>... {};

}  // namespace detail

/// A policy: the placement of one tensor. Has a name for reports, and decides by the tensor's place in the model.
template <auto Name, class... Rules>
struct table_policy {
  static constexpr std::string_view name = detail::enumerator_text<Name>;

  /// Throws usage_error where the model has so few layers that none or two of the on_layers ranges cover this one.
  [[nodiscard]] static constexpr choice at(layer_position position) {
    if (detail::rules_at<Name, Rules...>(position) != 1) {
      throw usage_error("tensor " + std::string(name) + ": layer " + std::to_string(position.index) + " of " +
                        std::to_string(position.count) +
                        " is in no on_layers range or in two: adapt the ranges of the "
                        "placement to models with so few layers");
    }
    choice decided = choice::save;
    ((detail::rule_for<Name, Rules>::names_it && Rules::layers::contains(position) ? void(decided = Rules::tag)
                                                                                   : void()),
     ...);
    return decided;
  }
};

/// The table. `Names` is an enum class whose enumerators lie in 0 to 127.
template <class Names, class... Rules>
class placement {
  static_assert(std::is_enum_v<Names> && !std::is_convertible_v<Names, int>,
                "hostoffload: the first argument of placement is the enum class that names the model's tensors");
  static_assert(
      sizeof(detail::check_table<Names, std::make_index_sequence<detail::enumerators<Names>.size()>, Rules...>) > 0);

  template <Names Name>
  struct policy_of {
    static_assert(detail::is_enumerator<Name>,
                  "hostoffload: of<> takes an enumerator with a value from 0 to 127 of the placement's enum class");
    using type = table_policy<Name, Rules...>;
  };

public:
  /// The policy type of one tensor: offload_tensor<float, table::of<name::q>>.
  template <Names Name>
  using of = typename policy_of<Name>::type;
};

/// A policy that takes its choice when the tensor is built: for planners and generated tests.
template <auto Name>
struct any_placement {
  static constexpr std::string_view name = detail::enumerator_text<Name>;
  constexpr explicit any_placement(choice chosen) noexcept : chosen_(chosen) {}
  [[nodiscard]] constexpr choice at(layer_position) const noexcept { return chosen_; }

private:
  choice chosen_;
};

namespace detail {
template <choice Choice>
struct plain_policy {
  static constexpr std::string_view name = "tensor";
  [[nodiscard]] static constexpr choice at(layer_position) noexcept { return Choice; }
};
}  // namespace detail

/// Policies without a table, for a program with few tensors.
using save = detail::plain_policy<choice::save>;
using offload = detail::plain_policy<choice::offload>;
using remat = detail::plain_policy<choice::remat>;

template <class P>
concept placement_policy = std::is_empty_v<P> && requires(layer_position at) {
  { P::name } -> std::convertible_to<std::string_view>;
  { P::at(at) } -> std::same_as<choice>;
};

template <class P>
concept chosen_policy =
    !std::is_empty_v<P> && std::is_constructible_v<P, choice> && requires(const P& p, layer_position at) {
  { P::name } -> std::convertible_to<std::string_view>;
  { p.at(at) } -> std::same_as<choice>;
};

static_assert(placement_policy<save> && placement_policy<offload> && placement_policy<remat>);

}  // namespace hostoffload::inline v0
