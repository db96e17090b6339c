#pragma once
// Finds accesses that nothing orders, and accesses to memory in the wrong state. It looks at the order that the program
// asked for, when an operation is enqueued, so what it finds does not depend on when things happen to run.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <hostoffload/virtual_gpu/detail/allocation.hpp>
#include <hostoffload/virtual_gpu/detail/names.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

class detector {
public:
  detector(names& texts, allocation_table& memory) : texts_(texts), memory_(memory) {}

  /// The operation `a`, ordered behind `clock`, reads or writes bytes [begin, end) of `m`.
  void read(const access& a, const vector_clock& clock, allocation& m, std::size_t begin, std::size_t end);
  void write(const access& a, const vector_clock& clock, allocation& m, std::size_t begin, std::size_t end);
  /// The operation frees all of `m`.
  void free(const access& a, const vector_clock& clock, allocation& m);

  /// The host, which knows of what `clock` says, reads or writes.
  void host_read(const access& a, const vector_clock& clock, allocation& m, std::size_t begin, std::size_t end);
  void host_write(const access& a, const vector_clock& clock, allocation& m, std::size_t begin, std::size_t end);

  /// The live allocation that holds all of the bytes; else null and a finding. Memory that never was an allocation is a
  /// finding only if it `must_exist`: the host has other memory too.
  [[nodiscard]] allocation* locate(const access& a, const void* begin, std::size_t bytes, bool must_exist);

  static void taken(allocation& m, std::size_t begin, std::size_t end);
  static void given_back(allocation& m, std::size_t begin, std::size_t end);

  /// A fault of one operation.
  void report(finding_kind kind, const access& a, const std::string& what);

  [[nodiscard]] std::vector<finding> found() const { return found_; }
  [[nodiscard]] bool silent() const noexcept { return found_.empty(); }
  void clear();

  [[nodiscard]] std::string describe(const access& a) const;
  [[nodiscard]] std::string describe(const allocation& m) const;

private:
  struct place {
    const allocation& m;
    std::size_t begin, end;
  };
  void conflict(finding_kind kind, const access& first, const access& second, const char* relation, const place& where);
  void add(finding_kind kind, const access* first, const access& second, const std::string& what, std::string edge);
  void check_alive(const access& a, const segment& s, const allocation& m);
  void check_written(const access& a, const segment& s, const allocation& m);

  using party = std::tuple<std::uint32_t, operation_kind, std::uint32_t>;  // name, kind, stream
  using key = std::tuple<finding_kind, party, party>;
  static constexpr std::size_t most = 1000;

  names& texts_;
  allocation_table& memory_;
  std::vector<finding> found_;
  std::map<key, std::size_t> index_;
};

}  // namespace hostoffload::inline v0::virtual_gpu::detail
