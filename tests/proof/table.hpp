#pragma once
// The tables of tests/README.md, which the proofs check.

#include "catch.hpp"

#include <fstream>
#include <string>
#include <vector>

namespace proof {

/// Fails unless these rows stand below the table's head in tests/README.md, and then shows them as they should stand.
inline void check_table(const std::string& head, const std::vector<std::string>& rows) {
  std::ifstream file(PROOF_README);
  std::vector<std::string> found;
  std::string line;
  while (std::getline(file, line) && line != head) {
  }
  std::getline(file, line);  // the rule below the head
  while (std::getline(file, line) && !line.empty() && line.front() == '|') found.push_back(line);
  if (found == rows) {
    SUCCEED("the table is as in tests/README.md");
    return;
  }
  std::string text;
  for (const std::string& row : rows) text += row + '\n';
  FAIL_CHECK("tests/README.md should have these rows below " << head << '\n' << text);
}

}  // namespace proof
