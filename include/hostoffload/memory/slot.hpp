#pragma once
// A slot: a piece of a slab that holds one tensor, and what a new owner has to be behind.

#include <hostoffload/cuda/stream_order.hpp>
#include <hostoffload/memory/slot_size.hpp>

#include <cstddef>
#include <cstdint>

namespace hostoffload::inline v0::detail {

struct tensor_record;

[[nodiscard]] inline bool is_covered(const stream_clock& needed, const stream_clock& by) noexcept {
  for (std::size_t i = 0; i < usual_streams; ++i) {
    if (needed.at[i] > by.at[i]) return false;
  }
  if (!needed.has_more_than_usual()) return true;
  for (std::size_t i = usual_streams; i < max_streams; ++i) {
    if (needed.at[i] > by.at[i]) return false;
  }
  return true;
}

enum class slot_state : std::uint8_t {
  free,    // whoever takes it goes behind `behind`
  kept,    // holds a tensor whose values are on the host as well: may be taken, behind `behind`, lowest `rank` first
  in_use,  // leased, being made, or the only place of its values
};

/// What a search looks at comes first.
struct slot {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::uint64_t rank = 0;    // kept: order of stowing, from 1, the first goes first; free: 0
  std::uint64_t freed = 0;   // free: order of freeing
  slot* previous = nullptr;  // neighbours in the slab; of a slot_cache: in the order of freeing, while free
  slot* next = nullptr;
  std::size_t run = 0;  // of the first of a piece that no slot in use divides: its bytes, when last looked at
  slot_state state = slot_state::free;
  tensor_record* owner = nullptr;  // unless free
  stream_clock behind{};           // last writer and last readers
};

/// Told which pieces of a slab are in use. A tool that watches memory (a race detector, a sanitizer) sees slots as it
/// sees allocations. The functions must not throw or call back.
struct slot_observer {
  void (*taken)(void* begin, std::size_t bytes) = nullptr;
  void (*given_back)(void* begin, std::size_t bytes) = nullptr;
};

}  // namespace hostoffload::inline v0::detail
