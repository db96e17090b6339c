#pragma once
// Bytes under a path that no disk has, for readers that take a path.

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

class memory_file {
public:
  explicit memory_file(std::span<const std::uint8_t> bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    const auto size = static_cast<ssize_t>(bytes.size());
    if (descriptor_ < 0 || write(descriptor_, bytes.data(), bytes.size()) != size) {
      throw std::logic_error("memfd_create");
    }
  }
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  ~memory_file() { close(descriptor_); }
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

private:
  int descriptor_;
};
