#pragma once
// The comparison as text and as JSON.

#include "comparison.hpp"

#include <string>
#include <vector>

namespace examples {

/// Above the table: the model and the device.
std::string describe(const example& of, const options& o, const device& on);

std::string table(const example& of, const std::vector<row>& rows, const device& on);

std::string json(const example& of, const std::vector<row>& rows, const device& on);

}  // namespace examples
