#include "fields.hpp"

#include "words.hpp"

#include <cmath>
#include <stdexcept>

namespace replay {

fields::fields(std::string file, std::string path, const nlohmann::json& object)
    : file_(std::move(file)), path_(std::move(path)), object_(&object) {
  if (!object.is_object()) throw std::runtime_error(file_ + ": " + (path_.empty() ? "this" : path_) + " is no object");
}

void fields::fail(std::string_view name, const std::string& fault) const {
  const std::string where = path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  throw std::runtime_error(file_ + ": " + where + ": " + fault);
}

const nlohmann::json& fields::take(const char* name) {
  read_.insert(name);
  const auto found = object_->find(name);
  if (found == object_->end()) fail(name, "this field is missing");
  return *found;
}

std::size_t fields::count(const char* name, std::size_t least) {
  constexpr std::size_t most = std::size_t{1} << 32U;
  const nlohmann::json& value = take(name);
  if (!value.is_number_unsigned() || value.get<std::size_t>() < least || value.get<std::size_t>() > most) {
    fail(name, "give a whole number of at least " + std::to_string(least));
  }
  return value.get<std::size_t>();
}

double fields::number(const char* name) {
  const nlohmann::json& value = take(name);
  if (!value.is_number() || !(value.get<double>() > 0) || !std::isfinite(value.get<double>())) {
    fail(name, "give a positive number");
  }
  return value.get<double>();
}

bool fields::flag_or(const char* name, bool otherwise) {
  if (!has(name)) return otherwise;
  const nlohmann::json& value = take(name);
  if (!value.is_boolean()) fail(name, "give true or false");
  return value.get<bool>();
}

std::string fields::text(const char* name) {
  const nlohmann::json& value = take(name);
  if (!value.is_string() || value.get<std::string>().empty()) fail(name, "give a text");
  return value.get<std::string>();
}

std::size_t fields::word(const char* name, std::initializer_list<std::string_view> words) {
  const std::string given = text(name);
  std::string all;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words.begin()[i] == given) return i;
    append(all, words.begin()[i], ", ");
  }
  fail(name, given + " is none of " + all);
}

std::vector<std::string> fields::texts(const char* name) {
  const nlohmann::json& value = take(name);
  if (!value.is_array()) fail(name, "give a list of texts");
  std::vector<std::string> all;
  for (const nlohmann::json& each : value) {
    if (!each.is_string()) fail(name, "give a list of texts");
    all.push_back(each.get<std::string>());
  }
  return all;
}

fields fields::object(const char* name) {
  const nlohmann::json& value = take(name);
  return {file_, path_.empty() ? std::string(name) : path_ + "." + name, value};
}

void fields::finish() const {
  for (const auto& [name, value] : object_->items()) {
    if (read_.find(name) == read_.end()) fail(name, "there is no such field");
  }
}

}  // namespace replay
