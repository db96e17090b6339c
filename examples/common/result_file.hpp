#pragma once
// Files for results.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace examples {

/// A file, and the option that names it; without a path the option was not given.
struct named_file {
  std::string option;
  std::string path;
};

/// That no file of `written` is one of `read`, whose contents it would replace, or another of `written`. What is no
/// regular file, such as a pipe, may be named again. Throws std::invalid_argument with one line.
void check_distinct(const std::vector<named_file>& read, const std::vector<named_file>& written);

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
