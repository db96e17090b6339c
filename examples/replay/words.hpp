#pragma once
// Lists in messages and tables.

#include <string>
#include <string_view>

namespace replay {

/// "a", then "a, b" with the separator ", ".
inline void append(std::string& list, std::string_view word, std::string_view separator) {
  if (!list.empty()) list += separator;
  list += word;
}

}  // namespace replay
