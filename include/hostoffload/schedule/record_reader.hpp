#pragma once
// The text of a record, word by word.

#include <hostoffload/errors.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <system_error>

namespace hostoffload::inline v0::detail {

/// Lines of a record and the words in them; errors name the file and the line.
class record_reader {
public:
  record_reader(std::istream& in, std::string_view file) : in_(in), file_(file) {}

  /// Of what is no record, such as a device that never ends, no more is read.
  void next_line() {
    ++number_;
    line_.clear();
    for (auto c = in_.get(); c != '\n'; c = in_.get()) {
      if (c == std::istream::traits_type::eof()) {
        if (line_.empty()) throw wrong("the file ends too soon");
        break;
      }
      if (line_.size() == longest_line) {
        throw wrong("a line of more than " + std::to_string(longest_line) + " characters is in no record");
      }
      line_ += static_cast<char>(c);
    }
    rest_ = line_;
  }
  /// Whether the next line begins so.
  [[nodiscard]] bool comes(char first) { return in_.peek() == std::istream::traits_type::to_int_type(first); }
  void expect(std::string_view word) {
    if (next_word() != word) throw wrong("expected \"" + std::string(word) + "\"");
  }
  template <class Number>
  [[nodiscard]] Number number(std::string_view what) {
    const std::string_view word = next_word();
    Number value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size()) throw unexpected(std::string(what), word);
    return value;
  }
  /// Which of them comes next, by its number.
  template <std::size_t N>
  [[nodiscard]] std::size_t one_of(const std::array<std::string_view, N>& words) {
    const std::string_view word = next_word();
    for (std::size_t i = 0; i < N; ++i) {
      if (word == words[i]) return i;
    }
    std::string text;
    for (std::size_t i = 0; i < N; ++i) text += (i == 0 ? "" : (i + 1 == N ? " or " : ", ")) + std::string(words[i]);
    throw unexpected(text, word);
  }
  /// A line with this word and a count.
  [[nodiscard]] std::uint32_t count_of(std::string_view what) {
    next_line();
    expect(what);
    const auto count = number<std::uint32_t>("a count");
    end_of_line();
    return count;
  }
  [[nodiscard]] std::string_view rest() const noexcept { return rest_; }
  void end_of_line() {
    if (!rest_.empty()) throw wrong("unexpected \"" + std::string(rest_) + "\"");
  }
  void end_of_file() {
    ++number_;
    if (in_.peek() != std::istream::traits_type::eof()) throw wrong("unexpected text behind the end");
  }

  [[nodiscard]] bool takes(std::string_view whole_rest) {
    if (rest_ != whole_rest) return false;
    rest_ = {};
    return true;
  }
  [[nodiscard]] usage_error wrong(const std::string& what) const { return wrong_at(number_, what); }
  /// Bytes of the file that are no text stand as "?".
  [[nodiscard]] usage_error wrong_at(std::size_t line, std::string what) const {
    std::replace_if(
        what.begin(), what.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    return usage_error(file_ + ":" + std::to_string(line) + ": " + what);
  }
  [[nodiscard]] std::size_t line_number() const noexcept { return number_; }

private:
  static constexpr std::size_t longest_line = std::size_t{1} << 24U;  // a life with 700 thousand uses has room

  [[nodiscard]] usage_error unexpected(const std::string& wanted, std::string_view word) const {
    std::string text = "expected " + wanted + ", found ";
    if (word.empty()) {
      text += "the end of the line";
    } else {
      text.append(1, '"').append(word).append(1, '"');
    }
    return wrong(text);
  }
  std::string_view next_word() {
    const std::size_t space = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, space);
    rest_.remove_prefix(std::min(space + 1, rest_.size()));
    return word;
  }
  std::istream& in_;
  std::string file_;
  std::string line_;
  std::string_view rest_;
  std::size_t number_ = 0;
};

}  // namespace hostoffload::inline v0::detail
