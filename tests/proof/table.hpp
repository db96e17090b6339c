#pragma once
// The tables of tests/README.md, which the proofs check.

#include <fstream>
#include <string>
#include <vector>

namespace proof {

/// The rows below a table's head, as they stand in tests/README.md; empty if there is no such table.
inline std::vector<std::string> table_in_readme(const std::string& head) {
  std::ifstream file(PROOF_README);
  std::vector<std::string> rows;
  std::string line;
  while (std::getline(file, line) && line != head) {
  }
  std::getline(file, line);  // the rule below the head
  while (std::getline(file, line) && !line.empty() && line.front() == '|') rows.push_back(line);
  return rows;
}

}  // namespace proof
