#pragma once
// Counts what operator new was asked for, in the whole program.

#include <cstddef>

[[nodiscard]] std::size_t allocations() noexcept;
