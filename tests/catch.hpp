#pragma once
// Catch2 2 and 3 spell their header and some matchers differently.

#include <string>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
inline auto has_text(const std::string& part) { return Catch::Matchers::ContainsSubstring(part); }
#else
#include <catch2/catch.hpp>
inline auto has_text(const std::string& part) { return Catch::Matchers::Contains(part); }
#endif
