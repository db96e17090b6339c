#pragma once
// The command line of the program `schedule`.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace schedules {

struct options {
  std::vector<std::string> workloads{};  ///< of the named ones; empty: all
  std::vector<std::string> schedules{};  ///< empty: all
  std::uint64_t seed = 1;                ///< of the first random workload; the next ones follow
  std::size_t random = 10;
  bool json = false;
  std::string json_file{};  ///< empty: standard output, in place of the table
  std::string dump{};       ///< folder; empty: none
};

/// No value: the program ends with `exit_code`, and has said why.
[[nodiscard]] std::optional<options> parse(int argc, const char* const* argv, int& exit_code);

}  // namespace schedules
