// Fuzz target: a safetensors file of any bytes is refused with one line, or all its bytes belong to one tensor each and
// can be read; and then the same header written anew says the same.
#include "common/safetensors.hpp"

#include "checkpoint.hpp"
#include "memory_file.hpp"

#include <cstdlib>

namespace {

void need(bool good) {
  if (!good) std::abort();
}

void need_one_line(const std::exception& error) {
  for (const char* c = error.what(); *c != '\0'; ++c) need(*c >= 0x20 && *c < 0x7f);
}

void read(const std::string& path, std::size_t size) {
  examples::safetensors_file file(path);
  std::size_t bytes = 0;
  for (const examples::stored_tensor& t : file.tensors()) {
    need(t.begin == bytes && file.bytes(t).size() == t.end - t.begin && file.find(t.name) != nullptr);
    bytes = t.end;
    if (t.type == "F32" || t.type == "BF16") need(file.floats(t).size() * (t.type == "F32" ? 4 : 2) == t.end - t.begin);
  }
  need(size >= bytes + 10);

  std::vector<examples::stored_tensor> tensors = file.tensors();
  const std::string again = examples::safetensors_header(tensors, file.metadata());
  const std::string with_data = again + std::string(bytes, '\0');
  const memory_file copy({reinterpret_cast<const std::uint8_t*>(with_data.data()), with_data.size()});
  const examples::safetensors_file same(copy.path());
  need(same.metadata() == file.metadata() && same.tensors().size() == tensors.size());
  for (const examples::stored_tensor& t : file.tensors()) {
    const examples::stored_tensor* const other = same.find(t.name);
    need(other != nullptr && other->type == t.type && other->shape == t.shape);
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it so
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const memory_file file({data, size});
  try {
    read(file.path(), size);
  } catch (const std::runtime_error& error) {
    need_one_line(error);
  }
  try {
    static_cast<void>(llama::load_checkpoint(file.path(), {1, 2, 1, 1, 1, 1, 2, true}));
  } catch (const std::runtime_error& error) {
    need_one_line(error);
  }
  return 0;
}
