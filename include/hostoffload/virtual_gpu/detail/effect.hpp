#pragma once
// What an operation does to memory when it runs, apart from when and for how long.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <hostoffload/virtual_gpu/kernel.h>

namespace hostoffload::inline v0::virtual_gpu::detail {

/// A copy of a kernel's closure. Keeps its buffer when the operation is used again, so that a steady program allocates
/// nothing.
class closure {
public:
  closure() = default;
  closure(const closure&) = delete;
  closure& operator=(const closure&) = delete;
  ~closure() { clear(); }

  void assign(const hostoffload_kernel& kernel) {
    clear();
    if (kernel.run == nullptr) return;
    void* to = kernel.closure_bytes == 0 ? nullptr : room(kernel.closure_bytes, kernel.closure_align);
    if (kernel.copy != nullptr) kernel.copy(to, kernel.closure);
    at_ = to;
    run_ = kernel.run;
    destroy_ = kernel.destroy;
  }
  void run() {
    if (run_ != nullptr) run_(at_);
  }
  /// What was copied.
  [[nodiscard]] const void* at() const noexcept { return at_; }
  void clear() {
    run_ = nullptr;
    if (auto* destroy = std::exchange(destroy_, nullptr)) destroy(at_);
  }
  void swap(closure& other) noexcept {
    std::swap(buffer_, other.buffer_);
    std::swap(capacity_, other.capacity_);
    std::swap(at_, other.at_);
    std::swap(run_, other.run_);
    std::swap(destroy_, other.destroy_);
  }

private:
  void* room(std::size_t bytes, std::size_t align) {
    std::size_t space = bytes + align;
    if (space > capacity_) {
      buffer_ = std::make_unique<std::byte[]>(space);
      capacity_ = space;
    }
    void* at = buffer_.get();
    space = capacity_;
    return std::align(align == 0 ? 1 : align, bytes, at, space);
  }

  std::unique_ptr<std::byte[]> buffer_;
  std::size_t capacity_ = 0;
  void* at_ = nullptr;
  void (*run_)(void*) = nullptr;
  void (*destroy_)(void*) = nullptr;
};

/// Bytes that the operation may touch while its effect runs.
struct byte_range {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

struct effect {
  enum class action : std::uint8_t { nothing, run, copy, set };

  action kind = action::nothing;
  int value = 0;  // of a set
  std::byte* to = nullptr;
  const std::byte* from = nullptr;  // null: from what was staged
  std::size_t count = 0, rows = 1;  // bytes of a row
  std::size_t to_pitch = 0, from_pitch = 0;
  closure code;
  std::vector<byte_range> ranges;  // that it may touch; kept only under the address sanitizer
  std::vector<std::byte> staged;   // what pageable memory held at the call

  void perform();
  /// Does nothing from now on; buffers stay.
  void clear();
  void swap(effect& other) noexcept;
};

}  // namespace hostoffload::inline v0::virtual_gpu::detail
