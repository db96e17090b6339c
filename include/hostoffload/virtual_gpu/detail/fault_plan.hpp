#pragma once
// What faults.hpp has armed, and what came of it.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hostoffload/virtual_gpu/detail/operation.hpp>
#include <hostoffload/virtual_gpu/faults.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

struct graph_nodes;

class fault_plan {
public:
  void fail(std::uint64_t n, cudaError_t code, std::string_view function);
  /// Success, or what the call of `function`, the `call`-th of all, must return. Counts it.
  [[nodiscard]] cudaError_t on_call(std::string_view function, std::uint64_t call);
  [[nodiscard]] const std::optional<failure>& failed() const noexcept { return failed_; }
  [[nodiscard]] std::uint64_t counted() const noexcept { return counted_; }

  void ignore_wait(std::uint64_t n);
  void ignore_waits(std::uint64_t from, std::uint64_t on);
  void watch();
  /// Whether the wait is to be left out. `implied`: `s` is ordered behind `e` without it.
  [[nodiscard]] bool on_wait(const stream& s, const event& e, std::uint64_t call, bool implied);
  [[nodiscard]] bool watching() const noexcept { return watching_; }
  void stream_gone(const stream& s);
  /// The capture that `s` takes part in ends.
  void capture_ends(const stream& s, const graph_nodes& nodes);
  [[nodiscard]] std::vector<wait_record> waits() const;

  void delay(std::optional<operation_kind> kind, std::string_view part_of_name, double seconds);
  [[nodiscard]] double delay_of(operation_kind kind, std::string_view name) const;

  void clear();

private:
  struct watched {
    wait_record seen;
    const stream* on = nullptr;  // of an ignored wait, while the stream, or its capture, lives
    lane event_lane = 0;
    std::uint64_t anchor = 0;
    std::vector<std::size_t> captured;  // of a wait in a capture: the nodes that the event is behind

    [[nodiscard]] bool implied_now() const;
  };
  struct slow {
    std::optional<operation_kind> kind;
    std::string part_of_name;
    double seconds = 0;
  };

  std::uint64_t counted_ = 0;
  std::uint64_t until_failure_ = 0;  // 0: none is to come
  cudaError_t code_ = cudaSuccess;
  std::string only_;
  std::optional<failure> failed_;

  bool watching_ = false;
  std::uint64_t until_ignored_ = 0;
  std::set<std::pair<std::uint64_t, std::uint64_t>> ignored_roles_;  // from, on
  std::vector<watched> waits_;

  std::vector<slow> delays_;
};

}  // namespace hostoffload::inline v0::virtual_gpu::detail
