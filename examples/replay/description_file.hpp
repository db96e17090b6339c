#pragma once
// Descriptions as JSON files. README.md lists their fields.

#include "description.hpp"

#include <hostoffload/virtual_gpu/machine.hpp>

#include <string>

namespace replay {

/// What a file says of a model and its layout, and the machine that it names.
struct described_run {
  description of;
  std::string machine;
};

/// Both throw std::runtime_error with one line: file, field, fault, remedy. Fields that are unknown, missing or
/// contradict each other are errors.
[[nodiscard]] described_run load_description(const std::string& path);

/// A machine's name ("gb200"), or a file that changes a named machine's numbers.
[[nodiscard]] hostoffload::virtual_gpu::machine load_machine(const std::string& name_or_path);

}  // namespace replay
