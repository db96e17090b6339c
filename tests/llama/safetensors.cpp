// The safetensors reader trusts nothing: each rule of the format has a file here that breaks it. The fuzz target
// tests/fuzz/safetensors.cpp looks for more.
#include "common/safetensors.hpp"

#include "catch.hpp"
#include "training/scratch.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace {

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + rest;
}

std::string whole(const std::string& header, std::size_t data_bytes) {
  return with_length(header.size(), header + std::string(data_bytes, '\0'));
}

/// What the file is refused for, without its name; empty where it is not.
std::string fault_of(const std::string& bytes) {
  const scratch_file file(bytes);
  try {
    examples::safetensors_file read(file.path());
    for (const examples::stored_tensor& t : read.tensors()) static_cast<void>(read.bytes(t));
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    REQUIRE(text.starts_with(file.path() + ": "));
    REQUIRE(text.find('\n') == std::string::npos);
    return text.substr(file.path().size() + 2);
  }
  return {};
}

/// One tensor "a" with these fields.
std::string tensor(const std::string& fields) { return "{\"a\":{" + fields + "}}"; }

struct broken {
  std::string header;
  std::size_t data_bytes;
  std::string fault;
};

}  // namespace

TEST_CASE("a safetensors file that keeps to the format is read") {
  const auto good = GENERATE(
      as<broken>{}, broken{"{}", 0, ""}, broken{"{}    \t\n", 0, ""},
      broken{tensor(R"("dtype":"F32","shape":[2,3],"data_offsets":[0,24])"), 24, ""},
      broken{tensor(R"("data_offsets":[0,4],"shape":[],"dtype":"F32")"), 4, ""},
      broken{tensor(R"("dtype":"F32","shape":[18446744073709551615,0],"data_offsets":[0,0])"), 0, ""},
      broken{tensor(R"("dtype":"F32","shape":[0,18446744073709551615,18446744073709551615],"data_offsets":[0,0])"), 0,
             ""},
      broken{
          R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})",
          3, ""},
      broken{
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"n":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
          1, ""},
      broken{R"({"__metadata__":{"format":"pt","a":"{\"b\":1}"}})", 0, ""});
  INFO(good.header);
  CHECK(fault_of(whole(good.header, good.data_bytes)).empty());
}

TEST_CASE("a safetensors file that breaks a rule is refused with one line that says which") {
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const std::vector<broken> files{
      {"", 0, "does not begin with {"},
      {" {}", 0, "does not begin with {"},
      {"[]", 0, "does not begin with {"},
      {"{", 0, "byte 2 of the header is not where JSON could go on"},
      {"{}}", 0, "byte 3 of the header"},
      {"{\"a\":", 0, "byte 6 of the header"},
      {"{\"\xff\":1}", 0, "of the header is not where JSON could go on"},
      {std::string("{}\0", 3), 0, "the header has a zero byte"},
      {R"({"a":1})", 0, "has a number in or behind \"a\""},
      {R"({"a":null})", 0, "has null in or behind \"a\""},
      {R"({"a":true})", 0, "has true or false in or behind \"a\""},
      {R"({"a":"text"})", 0, "has a string in or behind \"a\""},
      {R"({"a":[]})", 0, "has a list in or behind \"a\""},
      {"{\"a\":{}}", 0, "tensor \"a\" has no dtype"},
      {tensor(R"("dtype":"F32","shape":[1])"), 4, "tensor \"a\" has no data_offsets"},
      {tensor(R"("dtype":"F32","data_offsets":[0,4])"), 4, "tensor \"a\" has no shape"},
      {tensor(R"("dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4])"), 4, "has dtype twice"},
      {tensor(R"("dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4])"), 4, "has shape twice"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"data_offsets":[0,4])"), 4, "has data_offsets twice"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"strides":[1])"), 4, "the unknown entry \"strides\""},
      {tensor(R"("dtype":1,"shape":[1],"data_offsets":[0,4])"), 4, "has a number in"},
      {tensor(R"("dtype":"F33","shape":[1],"data_offsets":[0,4])"), 4, "the unknown type \"F33\""},
      {tensor(R"("dtype":"","shape":[1],"data_offsets":[0,4])"), 4, "the unknown type \"\""},
      {tensor(R"("dtype":"F32","shape":1,"data_offsets":[0,4])"), 4, "has a number in"},
      {tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4, "has a negative number in"},
      {tensor(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), 4, "no integer of 64 bits"},
      {tensor(R"("dtype":"F32","shape":[1e0],"data_offsets":[0,4])"), 4, "no integer of 64 bits"},
      {tensor(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4])"), 4, "no integer of 64 bits"},
      {tensor(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])"), 4, "has a list in"},
      {tensor(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])"), 0, "more bytes than can be"},
      {tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0, "more bytes than can be"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[])"), 4, "has not two data_offsets"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), 4, "has not two data_offsets"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])"), 4, "has a number in"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,5])"), 5, "bytes 0 to 5, but F32 [1] takes 4"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4, "ends before it begins"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 3,
       "beyond the file's data of 3; copy the file again"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615])"), 4, "beyond"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 5, "bytes 4 to 5 belong to no tensor"},
      {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[1,5])"), 5, "bytes 0 to 1 belong to no tensor"},
      {"{}", 1, "bytes 0 to 1 belong to no tensor"},
      {"{" + a + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})", 5,
       "\"b\" has bytes 3 to 5, which overlap"},
      {"{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4, "which overlap another tensor's"},
      {"{" + a + R"(,"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})", 4,
       "\"b\" has bytes 2 to 2, which overlap"},
      {"{" + a + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})", 6, "bytes 4 to 5 belong to no tensor"},
      {"{" + a + "," + a + "}", 4, "the name \"a\" occurs twice"},
      {"{" + a + R"(,"\u0061":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", 8, "the name \"a\" occurs twice"},
      {R"({"__metadata__":[]})", 0, "has a list in or behind \"__metadata__\""},
      {R"({"__metadata__":{"a":1}})", 0, "has a number in or behind \"a\""},
      {R"({"__metadata__":{"a":{}}})", 0, "has an object in or behind \"a\""},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "the metadata \"a\" occur twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "the name \"__metadata__\" occurs twice"},
      {R"({"a\nb\u001b[2J\"":1})", 0, R"("a\x0ab\x1b[2J\x22")"},
      {"{\"" + std::string(1000, 'x') + "\":1}", 0, std::string(100, 'x') + "\"..."},
      {"{\"a\":" + std::string(100000, '['), 0, "has a list in or behind \"a\""}};
  for (const broken& f : files) {
    const std::string fault = fault_of(whole(f.header, f.data_bytes));
    INFO(f.header.substr(0, 200) << " and " << f.data_bytes << " bytes: " << fault);
    CHECK(fault.find(f.fault) != std::string::npos);
  }
}

TEST_CASE("a length that the file does not have is refused before anything is allocated for it") {
  for (const std::string& bytes : {std::string(), std::string(7, '\0')}) {
    CHECK_THAT(fault_of(bytes), has_text("are less than the length of a header"));
  }
  CHECK_THAT(fault_of(with_length(3, "{}")), has_text("begins with a header of 3 bytes, and has 10"));
  CHECK_THAT(fault_of(with_length(~std::uint64_t{0}, "{}")), has_text("begins with a header of 18446744073709551615"));
  CHECK_THAT(fault_of(with_length(~std::uint64_t{0} - 7, "{}")), has_text("begins with a header of"));
  CHECK_THAT(fault_of("A text, and no safetensors file."), has_text("expected is a safetensors file"));
}

TEST_CASE("a safetensors file cut anywhere is refused") {
  const std::string good = whole(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})",
      9);
  REQUIRE(fault_of(good).empty());
  for (std::size_t size = 0; size < good.size(); ++size) {
    INFO(size);
    CHECK(!fault_of(good.substr(0, size)).empty());
  }
}

TEST_CASE("a safetensors file that cannot be opened, or is a folder") {
  CHECK_THROWS_WITH(examples::safetensors_file("absent.safetensors"),
                    has_text("absent.safetensors: cannot be opened: No such file"));
  CHECK_THROWS_WITH(examples::safetensors_file("."), has_text(".: is a folder; give a safetensors file"));
}

TEST_CASE("floats are read from F32 and BF16") {
  std::vector<examples::stored_tensor> tensors{{.name = "a", .type = "F32", .shape = {2}},
                                               {.name = "b", .type = "BF16", .shape = {1, 2}},
                                               {.name = "c", .type = "F16", .shape = {1}}};
  std::string bytes = examples::safetensors_header(tensors, {{"format", "pt"}});
  CHECK(bytes.size() % 8 == 0);
  const std::array<float, 2> a{1.5F, -0.0F};
  bytes.append(reinterpret_cast<const char*>(a.data()), sizeof a);
  bytes += {'\x80', '\x3f', '\x40', '\xc0'};  // 0x3f80 and 0xc040
  bytes += std::string(2, '\0');
  const scratch_file written(bytes);
  examples::safetensors_file file(written.path());
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.metadata().at("format") == "pt");
  CHECK(file.floats(*file.find("a")) == std::vector<float>{1.5F, -0.0F});
  CHECK(file.floats(*file.find("b")) == std::vector<float>{1, -3});
  CHECK(file.find("b")->shape == std::vector<std::uint64_t>{1, 2});
  CHECK(file.find("d") == nullptr);
  CHECK_THROWS_WITH(file.floats(*file.find("c")),
                    has_text("tensor \"c\" has type F16; convert the file to F32 or BF16"));
}
