#pragma once
// The enumerators of an enum class and their names, as the compiler writes them. No CUDA here.

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hostoffload::inline v0::detail {

inline constexpr std::size_t enumerators_searched = 128;

template <auto Value>
[[nodiscard]] constexpr std::string_view spelled() noexcept {
  const std::string_view text = __PRETTY_FUNCTION__;
  const std::size_t begin = text.find("Value = ") + 8;
  return text.substr(begin, text.find_first_of(";]", begin) - begin);
}

/// Without the qualification: "kv_a".
template <auto Value>
inline constexpr std::string_view enumerator_text = spelled<Value>().substr(spelled<Value>().rfind(':') + 1);

/// A value that is no enumerator is spelled as a cast: "(model::name)9".
template <auto Value>
inline constexpr bool is_enumerator = enumerator_text<Value>.find(')') == std::string_view::npos;

template <class Enum, std::size_t... I>
[[nodiscard]] constexpr auto find_enumerators(std::index_sequence<I...>) noexcept {
  constexpr std::size_t count = (std::size_t{0} + ... + std::size_t{is_enumerator<static_cast<Enum>(I)>});
  std::array<Enum, count> found{};
  std::size_t next = 0;
  ((is_enumerator<static_cast<Enum>(I)> ? void(found[next++] = static_cast<Enum>(I)) : void()), ...);
  return found;
}

template <class Enum>
inline constexpr auto enumerators = find_enumerators<Enum>(std::make_index_sequence<enumerators_searched>{});

}  // namespace hostoffload::inline v0::detail
