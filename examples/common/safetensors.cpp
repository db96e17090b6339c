#include "safetensors.hpp"

#include "element.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

namespace examples {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::uint64_t largest_header = 100'000'000;  // as in the format's own implementation
constexpr std::string_view metadata_name = "__metadata__";

struct type_bytes {
  std::string_view type;
  std::uint64_t bytes;
};
constexpr std::array<type_bytes, 17> types{{{"BOOL", 1},
                                            {"U8", 1},
                                            {"I8", 1},
                                            {"F8_E5M2", 1},
                                            {"F8_E4M3", 1},
                                            {"F8_E8M0", 1},
                                            {"I16", 2},
                                            {"U16", 2},
                                            {"F16", 2},
                                            {"BF16", 2},
                                            {"I32", 4},
                                            {"U32", 4},
                                            {"F32", 4},
                                            {"I64", 8},
                                            {"U64", 8},
                                            {"F64", 8},
                                            {"C64", 8}}};

[[noreturn]] void refuse(const std::string& fault) { throw std::runtime_error(fault); }

/// Throws where 64 bits do not hold it.
std::uint64_t bytes_of(const stored_tensor& t) {
  const auto* const known = std::find_if(types.begin(), types.end(), [&](const auto& k) { return k.type == t.type; });
  if (known == types.end()) refuse("tensor " + in_quotes(t.name) + " has the unknown type " + in_quotes(t.type));
  std::uint64_t product = 1;
  const auto multiply = [&](std::uint64_t factor) {
    if (factor != 0 && product > std::numeric_limits<std::uint64_t>::max() / factor) {
      refuse("tensor " + in_quotes(t.name) + " has a shape of more bytes than can be addressed");
    }
    product *= factor;
  };
  for (const std::uint64_t extent : t.shape) multiply(extent);
  multiply(known->bytes);
  return product;
}

/// Receives the header's JSON piece by piece and takes only what the format allows, so that neither depth nor size of
/// anything else matters. Names that occur twice are refused.
class header_reader final : public nlohmann::json_sax<nlohmann::json> {
public:
  std::vector<stored_tensor> tensors;
  safetensors_file::metadata_map metadata;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a number that is no integer of 64 bits");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t number) override {
    if (at_ == place::shape) {
      tensors.back().shape.push_back(number);
    } else if (at_ == place::offsets && offsets_ < 2) {
      (offsets_++ == 0 ? tensors.back().begin : tensors.back().end) = number;
    } else {
      return unexpected("a number");
    }
    return true;
  }

  bool string(string_t& text) override {
    if (at_ == place::type) {
      tensors.back().type = text;
      at_ = place::fields;
    } else if (at_ == place::metadata_text) {
      metadata[key_] = text;
      at_ = place::metadata;
    } else {
      return unexpected("a string");
    }
    return true;
  }

  bool key(string_t& text) override {
    if (at_ == place::tensors) {
      if (!names_.insert(text).second) refuse("the name " + in_quotes(text) + " occurs twice");
      key_ = text;
      at_ = place::entry;
    } else if (at_ == place::metadata) {
      if (metadata.contains(text)) refuse("the metadata " + in_quotes(text) + " occur twice");
      key_ = text;
      at_ = place::metadata_text;
    } else {
      field(text);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (at_ == place::start) {
      at_ = place::tensors;
    } else if (at_ == place::entry && key_ == metadata_name) {
      at_ = place::metadata;
    } else if (at_ == place::entry) {
      tensors.push_back({.name = key_, .type = {}, .shape = {}});
      seen_ = {};
      offsets_ = 0;
      at_ = place::fields;
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (at_ == place::fields) {
      for (std::size_t i = 0; i < seen_.size(); ++i) {
        if (!seen_.at(i)) refuse("tensor " + in_quotes(tensors.back().name) + " has no " + std::string(fields.at(i)));
      }
    }
    at_ = at_ == place::tensors ? place::end : place::tensors;
    return true;
  }

  bool start_array(std::size_t) override {
    if (at_ == place::shape_begins) {
      at_ = place::shape;
    } else if (at_ == place::offsets_begin) {
      at_ = place::offsets;
    } else {
      return unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    if (at_ == place::offsets && offsets_ != 2) {
      refuse("tensor " + in_quotes(tensors.back().name) + " has not two data_offsets");
    }
    at_ = place::fields;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    refuse("byte " + std::to_string(position) + " of the header is not where JSON could go on");
  }

private:
  enum class place : std::uint8_t {
    start,
    tensors,
    entry,
    fields,
    type,
    shape_begins,
    shape,
    offsets_begin,
    offsets,
    metadata,
    metadata_text,
    end
  };
  static constexpr std::array<std::string_view, 3> fields{"dtype", "shape", "data_offsets"};

  void field(const std::string& text) {
    constexpr std::array<place, 3> next{place::type, place::shape_begins, place::offsets_begin};
    const auto* const known = std::find(fields.begin(), fields.end(), text);
    const std::string of = "tensor " + in_quotes(tensors.back().name) + " has ";
    if (known == fields.end()) refuse(of + "the unknown entry " + in_quotes(text));
    const auto i = static_cast<std::size_t>(known - fields.begin());
    if (std::exchange(seen_.at(i), true)) refuse(of + text + " twice");
    at_ = next.at(i);
  }

  [[nodiscard]] bool unexpected(const std::string& what) const {
    refuse("the header has " + what + (key_.empty() ? " at its start" : " in or behind " + in_quotes(key_)) +
           " where the format does not allow it");
  }

  place at_ = place::start;
  std::string key_;  // of the tensor or the metadata
  std::set<std::string> names_;
  std::array<bool, 3> seen_{};
  unsigned offsets_ = 0;
};

/// Every byte belongs to one tensor.
void check_places(std::vector<stored_tensor>& tensors, std::uint64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const stored_tensor& a, const stored_tensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t next = 0;
  const auto text = [](std::uint64_t number) { return std::to_string(number); };
  for (const stored_tensor& t : tensors) {
    const std::string of = "tensor " + in_quotes(t.name) + " ";
    const std::string place = "bytes " + text(t.begin) + " to " + text(t.end);
    const std::uint64_t expected = bytes_of(t);
    if (t.end < t.begin) refuse(of + "ends before it begins: " + place);
    if (t.end > data_bytes) {
      refuse(of + "has " + place + ", beyond the file's data of " + text(data_bytes) + "; copy the file again");
    }
    if (t.end - t.begin != expected) {
      refuse(of + "has " + place + ", but " + t.type + " " + to_string(t.shape) + " takes " + text(expected));
    }
    if (t.begin < next) refuse(of + "has " + place + ", which overlap another tensor's");
    if (t.begin > next) refuse("bytes " + text(next) + " to " + text(t.begin) + " belong to no tensor");
    next = t.end;
  }
  if (next != data_bytes) refuse("bytes " + text(next) + " to " + text(data_bytes) + " belong to no tensor");
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 100;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string line = "\"";
  for (const char c : text.substr(0, longest)) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code < 0x7f && c != '"' && c != '\\') {
      line += c;
    } else {
      line += {'\\', 'x', digits[code / 16U], digits[code % 16U]};
    }
  }
  return line + (text.size() > longest ? "\"..." : "\"");
}

std::string to_string(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (const std::uint64_t extent : shape) text += (text.size() == 1 ? "" : ", ") + std::to_string(extent);
  return text + "]";
}

safetensors_file::safetensors_file(std::string path) : path_(std::move(path)) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) fail("is a folder; give a safetensors file");
  errno = 0;
  file_.open(path_, std::ios::binary);
  if (!file_) fail(std::string("cannot be opened: ") + std::strerror(errno));
  const std::string expected = "; expected is a safetensors file";
  std::error_code fault;
  const std::uint64_t size = std::filesystem::file_size(path_, fault);
  if (fault) fail("cannot be read: " + fault.message() + expected);
  std::uint64_t length = 0;
  if (size < sizeof length) fail(std::to_string(size) + " bytes are less than the length of a header" + expected);
  std::array<char, sizeof length> first{};
  file_.read(first.data(), first.size());
  std::memcpy(&length, first.data(), sizeof length);
  if (length > largest_header || length > size - sizeof length) {
    fail("begins with a header of " + std::to_string(length) + " bytes, and has " + std::to_string(size) + expected +
         ", whole");
  }
  std::string text(length, '\0');
  file_.read(text.data(), static_cast<std::streamsize>(length));
  if (!file_) fail("cannot be read");
  if (text.empty() || text.front() != '{') fail("has a header that does not begin with {" + expected);
  data_ = sizeof length + length;
  try {
    if (text.find('\0') != std::string::npos) refuse("the header has a zero byte");  // JSON's parser would end there
    header_reader reader;
    nlohmann::json::sax_parse(text, &reader);
    check_places(reader.tensors, size - data_);
    tensors_ = std::move(reader.tensors);
    metadata_ = std::move(reader.metadata);
  } catch (const std::runtime_error& error) {
    fail(error.what());
  }
}

void safetensors_file::fail(const std::string& fault) const { throw std::runtime_error(path_ + ": " + fault); }

const stored_tensor* safetensors_file::find(std::string_view name) const {
  const auto at = std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& t) { return t.name == name; });
  return at == tensors_.end() ? nullptr : &*at;
}

std::string safetensors_file::bytes(const stored_tensor& t) {
  std::string bytes(t.end - t.begin, '\0');
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(data_ + t.begin));
  file_.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file_) fail("tensor " + in_quotes(t.name) + " cannot be read");
  return bytes;
}

std::vector<float> safetensors_file::floats(const stored_tensor& t) {
  if (t.type != "F32" && t.type != "BF16") {
    fail("tensor " + in_quotes(t.name) + " has type " + t.type + "; convert the file to F32 or BF16");
  }
  const std::string from = bytes(t);
  std::vector<float> values(from.size() / (t.type == "F32" ? sizeof(float) : sizeof(bf16)));
  if (t.type == "F32") {
    if (!values.empty()) std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    bf16 value;
    std::memcpy(&value, from.data() + i * sizeof value, sizeof value);
    values[i] = static_cast<float>(value);
  }
  return values;
}

std::string safetensors_header(std::vector<stored_tensor>& tensors, const safetensors_file::metadata_map& metadata) {
  nlohmann::ordered_json json;
  if (!metadata.empty()) json[std::string(metadata_name)] = metadata;
  std::uint64_t next = 0;
  for (stored_tensor& t : tensors) {
    t.begin = next;
    t.end = next += bytes_of(t);
    json[t.name] = {{"dtype", t.type}, {"shape", t.shape}, {"data_offsets", {t.begin, t.end}}};
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

}  // namespace examples
