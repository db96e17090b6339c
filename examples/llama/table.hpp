#pragma once
// The comparison as text and as JSON.

#include "demo.hpp"

#include <string>
#include <vector>

namespace llama {

/// Above the table: the model and the device.
std::string describe(const options& o, const device& on);

std::string table(const std::vector<row>& rows, const device& on);

std::string json(const std::vector<row>& rows, const device& on);

}  // namespace llama
