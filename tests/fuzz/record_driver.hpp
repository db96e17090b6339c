#pragma once
// Records of any bytes: read whole and written again as they were read, or refused with one line; and every record that
// is taken is planned for in windows of many sizes, with plans that hold what they say. Used by the fuzz target, which
// looks for bytes, and by a test with bytes from a generator.

#include <hostoffload/schedule/recorded_step.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace record_driver {

namespace ho = hostoffload;

/// The bytes as a record's text. True when it is one. Throws std::logic_error where the library does what it must not.
bool read_any(const std::string& text);

/// A step that agrees with itself, with lives, points, sizes, times and rates as the bytes say: zeros, ties and
/// extremes among them.
[[nodiscard]] ho::recorded_step step_from(std::span<const std::uint8_t> bytes);

/// Plans for it, in windows of many sizes and in the least, or in one of them. Returns how many plans there were.
/// Throws std::logic_error.
std::size_t plan_any(const ho::recorded_step& step, std::optional<std::size_t> only = {});

/// The bytes as text, and as choices.
void run(std::span<const std::uint8_t> bytes);

}  // namespace record_driver
