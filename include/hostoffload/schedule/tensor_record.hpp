#pragma once
// What the scheduler knows of one tensor.

#include <hostoffload/coroutine/task.hpp>
#include <hostoffload/cuda/stream_order.hpp>
#include <hostoffload/memory/slot.hpp>
#include <hostoffload/placement.hpp>
#include <hostoffload/range_observer.hpp>
#include <hostoffload/schedule/use_pattern.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hostoffload::inline v0::detail {

struct tensor_record;

/// A function given to define: makes the values of one tensor, or of several at once.
class maker {
public:
  maker() = default;
  maker(const maker&) = delete;
  maker& operator=(const maker&) = delete;
  virtual ~maker() = default;

  [[nodiscard]] virtual bool is_coroutine() const noexcept = 0;
  [[nodiscard]] virtual task<> start() = 0;  // a coroutine
  virtual void call() = 0;                   // a plain function

  std::vector<tensor_record*> members;
  std::shared_ptr<maker> retired_before{};  // in the engine's list of those whose tensors went while they ran
};

enum class life : std::uint8_t {
  none,    // not made yet, or finished
  making,  // a define function or a writable lease fills it
  alive,   // has values: in its device slot, in its host slot, or to be made again
};

struct alignas(64) tensor_record {
  // What a step looks at that is played comes first, in one cache line.
  std::uint64_t generation = 0;   // leases of earlier lives are void
  std::size_t life_bytes = 0;     // of this life: what is stowed, and what slots in the window are taken for
  std::byte* makes_at = nullptr;  // where a define function writes it
  std::shared_ptr<maker> made_by{};

  std::string_view name{};
  layer_position position{};
  std::size_t bytes = 0;         // that it was built for, and that its host slot has
  std::size_t asked_bytes = 0;   // that its next life begins with
  choice placed = choice::save;  // save, offload or remat: fallbacks are decided when the tensor is built
  choice wanted = choice::save;  // as the policy says
  bool made_again = false;       // by the plan's choice: placed as offload, and dropped all the same; not within a step
  std::size_t row = 0;           // in the report

  life state = life::none;
  std::uint64_t generation_at_start = 0;  // of the step that is taped
  bool last_use = false;                  // memory goes back when the last lease ends
  bool remaking = false;                  // while making: values that were dropped
  bool temporary = false;                 // its life was over: made again for one recomputation alone
  bool unused = false;                    // made together with another tensor and not leased yet
  bool gone = false;                      // destroyed while it was being made
  unsigned leases = 0;
  use_pattern pattern{};

  slot* device = nullptr;
  slot* aside = nullptr;   // takes what a group's function writes where the values are here already
  stream_clock written{};  // the last write to the device slot
  stream_clock readers{};  // its last readers

  slot* host = nullptr;
  bool on_host = false;
  stream_clock host_written{};  // the copy out
  stream_clock host_read{};     // the last copy in
  std::uint64_t rank = 0;       // order of stowing
  tensor_record* stowed_before = nullptr;
  tensor_record* stowed_after = nullptr;

  void forget_size() noexcept { life_bytes = asked_bytes = bytes; }
  [[nodiscard]] bool in_window() const noexcept { return placed == choice::offload; }
  /// save, offload or remat: what is done with it.
  [[nodiscard]] choice treated_as() const noexcept { return made_again ? choice::remat : placed; }
  [[nodiscard]] purpose as_purpose() const noexcept { return {name, position.index, {}}; }
  [[nodiscard]] std::string title() const { return std::string(name) + "[" + std::to_string(position.index) + "]"; }
};

/// What a lease is made of; not set before it is granted: each await has one. In another order than in a lease: members
/// side by side would be copied as one, and wait until the writes of each are over.
struct granted_lease {
  std::byte* data;
  std::uint64_t generation;
  tensor_record* tensor;
  stream_id stream;
};

/// Somebody wants to lease a tensor. Lives in the awaiter, or on the stack of a straight-line call.
struct lease_request : granted_lease {
  lease_request(tensor_record& r, stream_id on, bool last) noexcept
      : granted_lease{nullptr, 0, &r, on}, last_use(last) {}

  bool granted = false;
  bool last_use;
  branch* line = nullptr;

  promise_base* waiter = nullptr;  // once queued
  lease_request* next = nullptr;
  bool queued = false;

  branch making{};  // under which the define function runs
  std::optional<task<>> making_task{};
  std::optional<observed_range> range{};  // while the define function runs
  maker* made_by = nullptr;               // lives until then, whatever becomes of the tensor
  std::exception_ptr failure{};
};

}  // namespace hostoffload::inline v0::detail
