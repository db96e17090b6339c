#pragma once
// A file for results.

#include <filesystem>
#include <fstream>
#include <string>

namespace examples {

/// A file that exists whole or not at all: written beside its place and moved there at the end. What is no regular
/// file, such as a pipe, is written in place. Opened at once, so that a long run does not end in a fault that could be
/// seen before.
class result_file {
public:
  /// Throws std::runtime_error with one line.
  explicit result_file(const std::string& path);
  result_file(const result_file&) = delete;
  result_file& operator=(const result_file&) = delete;
  ~result_file();

  /// Throws likewise; the file that was there before is then still there.
  void write(const std::string& text);

private:
  std::filesystem::path path_;
  std::filesystem::path written_;  // where the bytes go first
  std::ofstream file_;
  bool done_ = false;
};

}  // namespace examples
