#pragma once
// Memory that the virtual GPU knows: which address belongs to whom, how much is in use, and what lies fallow.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <hostoffload/virtual_gpu/detail/operation.hpp>
#include <hostoffload/virtual_gpu/detail/shadow.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

enum class memory_kind : std::uint8_t { device, pinned, registered };

struct pool {
  std::uint64_t number = 0;
  std::uint64_t call = 0;
  int device = 0;
  bool is_default = false;
  bool destroyed = false;
  std::size_t max_bytes = 0;  // 0: as much as the device has
  std::uint64_t release_threshold = 0;
  bool follow_events = true, opportunistic = true, internal_dependencies = true;
  std::size_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  std::vector<std::unique_ptr<memory_block>> blocks;
};

/// A mapped piece of device memory that is freed in stream order: of a pool, or of cudaMalloc given to cudaFreeAsync.
struct memory_block {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  pool* of = nullptr;  // null: unmapped when the free completes
  bool used = true;
  // Of the last free
  vector_clock freed;
  lane freed_lane = host_lane;
  std::uint64_t freed_tick = 0;
  pending_operation* freeing = nullptr;  // until it completes
  int frees_pending = 0;                 // the last free, and earlier ones after which the block was used again
};

struct allocation {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  memory_kind kind = memory_kind::device;
  int device = 0;
  unsigned flags = 0;
  std::uint64_t call = 0;
  std::uint32_t function = 0;  // name of the function that made it
  memory_block* block = nullptr;
  shadow pieces;
  std::vector<std::pair<std::size_t, std::size_t>> kept;  // dry mode: pieces with storage, from and to, sorted

  [[nodiscard]] bool on_device() const noexcept { return kind == memory_kind::device; }
};

/// An allocation that is gone; kept so that a later access can be told from a wild one.
struct former_allocation {
  std::size_t bytes = 0;
  std::uint64_t call = 0, freed_call = 0;
  std::uint32_t function = 0;
};

/// Of a new mapping. Poisoned: under the address sanitizer; otherwise as all.
enum class access_rights : std::uint8_t { none, all, poisoned };

/// Pages without backing until they are touched, so that a machine may have more memory than this one. Unmapped
/// addresses are kept off the market for a while.
class address_space {
public:
  address_space() = default;
  address_space(const address_space&) = delete;
  address_space& operator=(const address_space&) = delete;
  ~address_space();

  /// Null when the system has no such range.
  [[nodiscard]] std::byte* map(std::size_t bytes, access_rights rights);
  /// Makes the pages that hold the bytes accessible.
  static void open(std::byte* begin, std::size_t bytes);
  void unmap(std::byte* begin);

private:
  struct mapping {
    std::size_t bytes = 0;
    bool poisoned = false;
  };
  std::map<std::byte*, mapping> mapped_;
  std::deque<std::pair<std::byte*, mapping>> fallow_;
};

class allocation_table {
public:
  /// The allocation that holds `at`, or null.
  [[nodiscard]] allocation* find(const void* at);
  [[nodiscard]] const former_allocation* find_former(const void* at) const;
  [[nodiscard]] bool overlaps(const std::byte* begin, std::size_t bytes) const;

  allocation& add(allocation a);
  /// `call` freed it; 0: the memory lives on without us.
  void remove(allocation& a, std::uint64_t call);

  [[nodiscard]] const std::map<const std::byte*, allocation>& all() const noexcept { return live_; }

private:
  static constexpr std::size_t remembered = 4096;

  std::map<const std::byte*, allocation> live_;
  std::map<const std::byte*, former_allocation> former_;
  std::deque<const std::byte*> former_order_;
};

/// Makes bytes of the device touchable while it lives; nothing to do without the address sanitizer.
class unpoisoned {
public:
  explicit unpoisoned(const std::vector<byte_range>& ranges);
  unpoisoned(const unpoisoned&) = delete;
  unpoisoned& operator=(const unpoisoned&) = delete;
  ~unpoisoned();

private:
  const std::vector<byte_range>& ranges_;
};

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool address_sanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool address_sanitizer = true;
#else
inline constexpr bool address_sanitizer = false;
#endif
#else
inline constexpr bool address_sanitizer = false;
#endif

}  // namespace hostoffload::inline v0::virtual_gpu::detail
