#pragma once
// Training data: the bytes of a text, or the tokens of a file in llm.c's .bin format.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace examples {

class token_stream {
public:
  /// The file's bytes, one token each (vocabulary 256). Throws std::runtime_error with one line: file, fault, remedy.
  static token_stream from_text(const std::string& path);

  /// 256 int32 (20240520, 1, number of tokens), then uint16 tokens, little-endian, all below `vocabulary`. Throws
  /// likewise.
  static token_stream from_bin(const std::string& path, std::size_t vocabulary);

  [[nodiscard]] std::size_t size() const { return tokens_.size(); }

  /// Throws std::runtime_error where there are not even `sequence` tokens and one to predict.
  void check_sequence(std::size_t sequence) const;

  /// Batch number `index`: sequences from random places, and the tokens that follow each token. Sizes are multiples of
  /// `sequence`. The same seed and index give the same batch.
  void fill(std::uint64_t seed, std::size_t index, std::size_t sequence, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const;

private:
  token_stream(std::string path, std::vector<std::uint16_t> tokens)
      : path_(std::move(path)), tokens_(std::move(tokens)) {}

  std::string path_;
  std::vector<std::uint16_t> tokens_;
};

}  // namespace examples
