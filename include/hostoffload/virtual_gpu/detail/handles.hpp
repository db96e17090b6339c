#pragma once
// Handles that are never handed out twice, so that a stale one is known as such.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::virtual_gpu::detail {

/// A unique number for the life of the process, also across resets.
[[nodiscard]] std::uint64_t next_serial() noexcept;

/// Objects by handle. A handle is the object's place in the table and a serial number, in the form of CUDA's opaque
/// pointer.
template <typename Object, typename Handle>
class handle_table {
public:
  std::pair<Object*, Handle> add() {
    std::size_t at = slots_.size();
    if (unused_.empty()) {
      slots_.emplace_back();
    } else {
      at = unused_.back();
      unused_.pop_back();
    }
    slots_[at].object = std::make_unique<Object>();
    slots_[at].value = (next_serial() << place_bits) | at;
    return {slots_[at].object.get(), to_handle(slots_[at].value)};
  }

  /// Null for what is no handle of this table, or no longer.
  [[nodiscard]] Object* find(Handle handle) const noexcept {
    const std::uint64_t value = to_value(handle);
    const std::size_t at = value & ((std::uint64_t{1} << place_bits) - 1);
    return at < slots_.size() && slots_[at].value == value ? slots_[at].object.get() : nullptr;
  }

  /// Takes a live object out of the table.
  [[nodiscard]] std::unique_ptr<Object> remove(Handle handle) {
    const std::size_t at = to_value(handle) & ((std::uint64_t{1} << place_bits) - 1);
    slots_[at].value = 0;
    unused_.push_back(at);
    return std::move(slots_[at].object);
  }

  template <typename Visitor>
  void each(Visitor visit) const {
    for (const auto& s : slots_) {
      if (s.object) visit(*s.object, to_handle(s.value));
    }
  }

private:
  static constexpr unsigned place_bits = 20;
  struct slot {
    std::unique_ptr<Object> object;
    std::uint64_t value = 0;
  };
  static Handle to_handle(std::uint64_t value) noexcept {
    return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(value));  // NOLINT(performance-no-int-to-ptr)
  }
  static std::uint64_t to_value(Handle handle) noexcept { return reinterpret_cast<std::uintptr_t>(handle); }

  std::vector<slot> slots_;
  std::vector<std::size_t> unused_;
};

}  // namespace hostoffload::inline v0::virtual_gpu::detail
