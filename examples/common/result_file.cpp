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

/// Also of files that do not exist yet.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code fault;
  for (const std::filesystem::path& path : {a, b}) {
    if (std::filesystem::exists(path, fault) && !std::filesystem::is_regular_file(path, fault)) return false;
  }
  if (std::filesystem::equivalent(a, b, fault)) return true;
  const auto whole = [&fault](const std::filesystem::path& p) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(p, fault), fault);
  };
  const std::filesystem::path first = whole(a);
  return !fault && first == whole(b) && !fault;
}

}  // namespace

void check_distinct(const std::vector<named_file>& read, const std::vector<named_file>& written) {
  std::vector<named_file> others = read;
  for (const named_file& w : written) {
    if (w.path.empty()) continue;
    for (const named_file& o : others) {
      if (o.path.empty() || !same_file(o.path, w.path)) continue;
      throw std::invalid_argument(o.option + " and " + w.option + " are one file, " + w.path +
                                  ": write to another one");
    }
    others.push_back(w);
  }
}

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
