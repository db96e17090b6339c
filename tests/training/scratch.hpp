#pragma once
// A file in the temporary folder, removed at the end.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include <unistd.h>

class scratch_file {
public:
  explicit scratch_file(const std::string& bytes)
      : path_(std::filesystem::temp_directory_path() / ("hostoffload_test_" + std::to_string(getpid()) + "_" +
                                                        std::to_string(reinterpret_cast<std::uintptr_t>(this)))) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  ~scratch_file() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

private:
  std::filesystem::path path_;
};
