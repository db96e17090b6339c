#pragma once
// Each function runs some public idioms on a device and returns values for the host to check. The same source runs on
// the virtual GPU, compiled by a host compiler, and on a GPU, compiled by nvcc.

#include <cstddef>
#include <string>
#include <vector>

namespace idioms {

inline constexpr std::size_t elements = 1000;
inline constexpr std::size_t layers = 3;

/// Layer by layer gate = input + 1, up = 2 input, act = gate + up, which is the next layer's input; the first input is
/// 0, 1, 2, …. Returns the sum of every layer's act and input, added up in the backward pass: a table with a rule for
/// some layers, define, a group, awaits, last uses and a task's value.
std::vector<float> table_and_coroutines();

/// The same for two models side by side, awaited with when_all; the sum of both.
std::vector<float> two_tasks();

/// Twice 0, 1, 2, …, read on a second stream.
std::vector<float> second_stream();

/// act of one layer, by a step in straight lines: produce, fetch, last fetch, a plain function that rematerialises.
std::vector<float> straight_lines();

/// 0, 1, 2, … once for every choice that a tensor can be built with.
std::vector<float> choices_at_construction();

/// Three times the sum of the first: of a step, and of two launches of the same step captured.
std::vector<float> captured_step();

/// Multiples of 0, 1, 2, …: the factor, 7, is computed on the device and read by the host in the middle of a step.
std::vector<float> value_for_the_host();

/// What the library reports of a step, as text and as JSON.
std::string report_text();
std::string report_json();

}  // namespace idioms
