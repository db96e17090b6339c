#pragma once
// The fields of a JSON object, each read once and checked; what is left over is an error.

#include <nlohmann/json.hpp>

#include <cstddef>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace replay {

class fields {
public:
  /// `object` outlives this. Throws where it is no object.
  fields(std::string file, std::string path, const nlohmann::json& object);

  [[nodiscard]] bool has(const char* name) const { return object_->contains(name); }
  /// A whole number from `least` on.
  [[nodiscard]] std::size_t count(const char* name, std::size_t least = 1);
  [[nodiscard]] std::size_t count_or(const char* name, std::size_t otherwise) {
    return has(name) ? count(name, 0) : otherwise;
  }
  /// A positive number.
  [[nodiscard]] double number(const char* name);
  [[nodiscard]] double number_or(const char* name, double otherwise) { return has(name) ? number(name) : otherwise; }
  [[nodiscard]] bool flag_or(const char* name, bool otherwise);
  [[nodiscard]] std::string text(const char* name);
  /// One of `words`; returns its place.
  [[nodiscard]] std::size_t word(const char* name, std::initializer_list<std::string_view> words);
  [[nodiscard]] std::vector<std::string> texts(const char* name);
  [[nodiscard]] fields object(const char* name);

  /// Throws where there are fields that nobody has read.
  void finish() const;
  [[noreturn]] void fail(std::string_view name, const std::string& fault) const;

private:
  const nlohmann::json& take(const char* name);

  std::string file_, path_;
  const nlohmann::json* object_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace replay
