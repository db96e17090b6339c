#pragma once
// Slots of exact sizes, allocated when first needed and then recycled: a step that repeats allocates nothing, whatever
// it frees in between. For device memory outside the window and for host memory.

#include <hostoffload/cuda/allocation.hpp>
#include <hostoffload/memory/slot.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace hostoffload::inline v0::detail {

/// `Allocation` is device_allocation, pinned_allocation or host_piece.
template <class Allocation>
class slot_cache {
public:
  /// With a region of the caller's, slots are cut from it one after the other; else each slot is an allocation, except
  /// what reserve() allocates in one piece.
  explicit slot_cache(memory_region callers = {}) : callers_(callers), rest_(callers) {}

  /// The slot of this size that `taker` has the least to wait for. Throws out_of_memory.
  slot& take(std::size_t bytes, tensor_record& owner, const stream_clock& taker, const purpose& what) {
    bucket& sized = bucket_of(bytes);
    if (sized.first == nullptr) sized.append(slots_.emplace_back(slot{.begin = cut(bytes, what), .bytes = bytes}));
    slot* ready = sized.first;
    while (ready != nullptr && !is_covered(ready->behind, taker)) ready = ready->next;
    slot& taken = ready != nullptr ? *ready : *sized.first;  // else the one that was freed first
    sized.remove(taken);
    taken.state = slot_state::in_use;
    taken.owner = &owner;
    used_ += bytes;
    return taken;
  }

  /// The next owner goes behind `behind`.
  void give_back(slot& s, const stream_clock& behind) noexcept {
    s.state = slot_state::free;
    s.owner = nullptr;
    s.behind = behind;
    used_ -= s.bytes;
    bucket_of(s.bytes).append(s);
  }

  /// Whether take() would allocate nothing.
  [[nodiscard]] bool has_free(std::size_t bytes) { return bucket_of(bytes).first != nullptr; }

  /// Gives up all slots if none is in use. No work on them may be in flight.
  void release_unused() noexcept {
    if (used_ != 0) return;
    buckets_.clear();
    recent_ = nullptr;
    slots_.clear();
    owned_.clear();
    rest_ = callers_;
  }

  /// One allocation for slots to come, made as `how` says.
  template <class... How>
  void reserve(std::size_t bytes, const purpose& what, const How&... how) {
    if (callers_.begin != nullptr || bytes <= rest_.bytes) return;
    owned_.emplace_back(bytes, what, how...);
    rest_ = owned_.back().region();
  }

  /// Whoever takes a slot next goes behind `behind`, whatever was before.
  void all_behind(const stream_clock& behind) noexcept {
    for (slot& s : slots_) s.behind = behind;
  }
  template <class Visitor>
  void each(Visitor&& visit) const {
    for (const slot& s : slots_) visit(s);
  }

  /// Whoever comes next in the order of an earlier time, when nothing was in use, gets what he got then.
  void in_first_order() noexcept {
    if (used_ != 0) return;
    for (bucket& b : buckets_) b.first = b.last = nullptr;
    for (slot& s : slots_) bucket_of(s.bytes).append(s);
  }
  /// What the choice of slots depends on, once they are in_first_order(). None is in use. Slots of one size are told
  /// apart: two that tensors take in turns, one step after the other, are not the same twice.
  void print(state_print& to) const {
    for (const slot& s : slots_) {
      to.add(s.bytes);
      to.add(s.behind);
    }
  }

  [[nodiscard]] std::size_t used_bytes() const noexcept { return used_; }
  /// Allocated by this cache, or cut from the caller's region.
  [[nodiscard]] std::size_t total_bytes() const noexcept {
    std::size_t total = callers_.bytes - (callers_.begin != nullptr ? rest_.bytes : 0);
    for (const Allocation& a : owned_) total += a.region().bytes;
    return total;
  }

private:
  /// The free slots of one size, in the order of freeing.
  struct bucket {
    std::size_t bytes = 0;
    slot* first = nullptr;
    slot* last = nullptr;

    void append(slot& s) noexcept {
      s.previous = last;
      s.next = nullptr;
      (last != nullptr ? last->next : first) = &s;
      last = &s;
    }
    void remove(slot& s) noexcept {
      (s.previous != nullptr ? s.previous->next : first) = s.next;
      (s.next != nullptr ? s.next->previous : last) = s.previous;
    }
  };

  bucket& bucket_of(std::size_t bytes) {
    if (recent_ != nullptr && recent_->bytes == bytes) return *recent_;
    const auto found =
        std::find_if(buckets_.begin(), buckets_.end(), [&](const bucket& b) { return b.bytes == bytes; });
    recent_ = found != buckets_.end() ? &*found : &buckets_.emplace_back(bucket{.bytes = bytes});
    return *recent_;
  }

  std::byte* cut(std::size_t bytes, const purpose& what) {
    if (bytes > rest_.bytes) {
      if (callers_.begin != nullptr) {
        throw out_of_memory("tensor " + std::string(what.tensor) + "[" + std::to_string(what.layer) +
                                "]: " + std::to_string(bytes) + " bytes were requested and " +
                                std::to_string(rest_.bytes) + " of the caller's " + std::to_string(callers_.bytes) +
                                " are left: give the scheduler a larger region",
                            cudaErrorMemoryAllocation, "slot_cache", bytes);
      }
      owned_.emplace_back(bytes, what);
      return static_cast<std::byte*>(owned_.back().region().begin);
    }
    auto* const begin = static_cast<std::byte*>(rest_.begin);
    rest_ = {begin + bytes, rest_.bytes - bytes};
    return begin;
  }

  memory_region callers_;
  memory_region rest_;
  std::vector<Allocation> owned_;
  std::deque<slot> slots_;  // addresses are stable
  std::deque<bucket> buckets_;
  bucket* recent_ = nullptr;  // neighbours in a step often have one size
  std::size_t used_ = 0;
};

}  // namespace hostoffload::inline v0::detail
