#include "tokens.hpp"

#include "random.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace examples {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& fault) {
  throw std::runtime_error(path + ": " + fault);
}

std::vector<char> read(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(path, "is a folder; give a file");
  if (std::filesystem::is_character_file(path, ignored)) fail(path, "is a device, which may have no end; give a file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, std::string("cannot be opened: ") + std::strerror(errno));
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (file.bad() || bytes.bad()) fail(path, "cannot be read");
  const std::string text = bytes.str();
  return {text.begin(), text.end()};
}

}  // namespace

token_stream token_stream::from_text(const std::string& path) {
  const std::vector<char> bytes = read(path);
  std::vector<std::uint16_t> tokens;
  tokens.reserve(bytes.size());
  for (const char c : bytes) tokens.push_back(static_cast<unsigned char>(c));
  return token_stream(path, std::move(tokens));
}

token_stream token_stream::from_bin(const std::string& path, std::size_t vocabulary) {
  constexpr std::size_t header_bytes = 256 * sizeof(std::int32_t);
  constexpr std::int32_t magic = 20240520;
  const std::vector<char> bytes = read(path);
  const std::string expected = "; expected is llm.c's token format";
  if (bytes.size() < header_bytes) {
    fail(path, std::to_string(bytes.size()) + " bytes are less than the header of " + std::to_string(header_bytes) +
                   expected);
  }
  std::array<std::int32_t, 3> header{};
  std::memcpy(header.data(), bytes.data(), sizeof header);
  if (header[0] != magic)
    fail(path, "begins with " + std::to_string(header[0]) + ", not " + std::to_string(magic) + expected);
  if (header[1] != 1) fail(path, "has version " + std::to_string(header[1]) + ", not 1" + expected);
  if (header[2] < 0) fail(path, "counts " + std::to_string(header[2]) + " tokens" + expected);
  const auto count = static_cast<std::size_t>(header[2]);
  if (bytes.size() != header_bytes + count * sizeof(std::uint16_t)) {
    fail(path, "counts " + std::to_string(count) + " tokens, but holds " + std::to_string(bytes.size() - header_bytes) +
                   " bytes of them; copy the file again");
  }
  std::vector<std::uint16_t> tokens(count);
  if (count != 0) std::memcpy(tokens.data(), bytes.data() + header_bytes, count * sizeof(std::uint16_t));
  for (std::size_t i = 0; i < count; ++i) {
    if (tokens[i] >= vocabulary) {
      fail(path, "token " + std::to_string(i) + " is " + std::to_string(tokens[i]) + ", beyond the vocabulary of " +
                     std::to_string(vocabulary) + "; raise --vocabulary");
    }
  }
  return token_stream(path, std::move(tokens));
}

void token_stream::check_sequence(std::size_t sequence) const {
  if (tokens_.size() <= sequence) {
    fail(path_, "has " + std::to_string(tokens_.size()) + " tokens, and a sequence needs " +
                    std::to_string(sequence + 1) + "; give a longer file or a smaller --sequence");
  }
}

void token_stream::fill(std::uint64_t seed, std::size_t index, std::size_t sequence, std::span<std::int32_t> inputs,
                        std::span<std::int32_t> targets) const {
  random numbers(seed * 0x9e3779b97f4a7c15U + index);
  for (std::size_t row = 0; row < inputs.size(); row += sequence) {
    const std::size_t begin = numbers.next() % (tokens_.size() - sequence);
    for (std::size_t i = 0; i < sequence; ++i) {
      inputs[row + i] = tokens_[begin + i];
      targets[row + i] = tokens_[begin + i + 1];
    }
  }
}

}  // namespace examples
