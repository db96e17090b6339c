#include "common/tokens.hpp"

#include "catch.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

/// A file in the temporary folder, removed at the end.
class temporary_file {
public:
  explicit temporary_file(const std::string& bytes)
      : path_(std::filesystem::temp_directory_path() /
              ("hostoffload_tokens_" + std::to_string(reinterpret_cast<std::uintptr_t>(this)))) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("a text's bytes are its tokens, and targets follow inputs") {
  const temporary_file file("\x01\x02\x03\xff");
  const auto tokens = examples::token_stream::from_text(file.path());
  REQUIRE(tokens.size() == 4);
  std::array<std::int32_t, 3> inputs{};
  std::array<std::int32_t, 3> targets{};
  tokens.fill(1, 0, 3, inputs, targets);  // there is one place for a sequence of three
  CHECK(inputs == std::array<std::int32_t, 3>{1, 2, 3});
  CHECK(targets == std::array<std::int32_t, 3>{2, 3, 255});
  CHECK_NOTHROW(tokens.check_sequence(3));
  CHECK_THROWS_WITH(tokens.check_sequence(4), Catch::Contains("has 4 tokens, and a sequence needs 5"));
}

TEST_CASE("a token file's tokens are read, all of them") {
  std::vector<std::int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 3;
  const std::array<std::uint16_t, 3> values{50256, 0, 300};
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  bytes.append(reinterpret_cast<const char*>(values.data()), 6);
  const temporary_file file(bytes);
  const auto tokens = examples::token_stream::from_bin(file.path(), 50257);
  REQUIRE(tokens.size() == 3);
  std::array<std::int32_t, 2> inputs{};
  std::array<std::int32_t, 2> targets{};
  tokens.fill(1, 0, 2, inputs, targets);
  CHECK(inputs == std::array<std::int32_t, 2>{50256, 0});
  CHECK(targets == std::array<std::int32_t, 2>{0, 300});
  CHECK_THROWS_WITH(examples::token_stream::from_bin(file.path(), 50256),
                    Catch::Contains("token 0 is 50256, beyond the vocabulary"));
}

TEST_CASE("batches depend on seed and number alone") {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i);
  const temporary_file file(text);
  const auto tokens = examples::token_stream::from_text(file.path());
  const auto batch = [&](std::uint64_t seed, std::size_t index) {
    std::vector<std::int32_t> inputs(32);
    std::vector<std::int32_t> targets(32);
    tokens.fill(seed, index, 8, inputs, targets);
    return inputs;
  };
  CHECK(batch(1, 0) == batch(1, 0));
  CHECK(batch(1, 0) != batch(1, 1));
  CHECK(batch(1, 0) != batch(2, 0));
}
