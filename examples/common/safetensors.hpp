#pragma once
// The safetensors format: a length in 8 bytes, a JSON header of that length, and the bytes of the tensors, without
// gaps. https://huggingface.co/docs/safetensors

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

struct stored_tensor {
  std::string name;
  std::string type;  // "F32", "BF16" and so on
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from the end of the header
};

/// One line that names what `text` says, whatever it holds: for names that come out of a file.
std::string in_quotes(std::string_view text);

/// "[4, 16]".
std::string to_string(const std::vector<std::uint64_t>& shape);

/// A file to read from. The header is not trusted: lengths, types, shapes and offsets have to agree with one another
/// and with the file's size, and all bytes belong to one tensor each.
class safetensors_file {
public:
  using metadata_map = std::map<std::string, std::string>;

  /// Reads the header. This and the following throw std::runtime_error with one line: file, fault, remedy.
  explicit safetensors_file(std::string path);

  [[nodiscard]] const std::string& path() const { return path_; }
  /// In the order of their bytes.
  [[nodiscard]] const std::vector<stored_tensor>& tensors() const { return tensors_; }
  [[nodiscard]] const metadata_map& metadata() const { return metadata_; }
  /// Null where there is none of that name.
  [[nodiscard]] const stored_tensor* find(std::string_view name) const;

  [[nodiscard]] std::string bytes(const stored_tensor& t);
  /// Of a tensor of type F32 or BF16.
  [[nodiscard]] std::vector<float> floats(const stored_tensor& t);

  [[noreturn]] void fail(const std::string& fault) const;

private:
  std::string path_;
  std::ifstream file_;
  std::uint64_t data_ = 0;  // where the tensors' bytes begin
  std::vector<stored_tensor> tensors_;
  metadata_map metadata_;
};

/// The file's first bytes: length and header, padded so that the data begin at a multiple of 8. Sets begin and end of
/// each tensor, whose bytes then have to follow in this order.
std::string safetensors_header(std::vector<stored_tensor>& tensors, const safetensors_file::metadata_map& metadata);

}  // namespace examples
