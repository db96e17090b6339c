#include "result_file.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace examples {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw std::runtime_error(path.string() + ": cannot be written: " + std::strerror(error != 0 ? error : EIO));
}

}  // namespace

result_file::result_file(const std::string& path) : path_(path), written_(path) {
  std::error_code ignored;
  const bool in_place = std::filesystem::exists(path_, ignored) && !std::filesystem::is_regular_file(path_, ignored);
  if (!in_place) written_ += ".partial";
  errno = 0;
  file_.open(written_, std::ios::binary | std::ios::trunc);
  if (!file_) {
    done_ = true;
    fail(path_, errno);
  }
}

result_file::~result_file() {
  std::error_code ignored;
  if (!done_ && written_ != path_) std::filesystem::remove(written_, ignored);
}

void result_file::write(const std::string& text) {
  errno = 0;
  file_ << text;
  file_.close();
  if (!file_) fail(path_, errno);
  if (written_ != path_) {
    std::error_code fault;
    std::filesystem::rename(written_, path_, fault);
    if (fault) fail(path_, fault.value());
  }
  done_ = true;
}

}  // namespace examples
