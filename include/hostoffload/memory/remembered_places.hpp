#pragma once
// The places in the window that the last step's slots were given. While a step does with the window what the last one
// did, the answers to its searches are known: the same places are as good as they were, or there is none again. So
// addresses stay the same from step to step.

#include <hostoffload/memory/slot.hpp>
#include <hostoffload/memory/window_slab.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace hostoffload::inline v0::detail {

class remembered_places {
public:
  struct search {
    std::size_t bytes = 0;
    std::uint64_t rank_limit = 0;
    window_slab::room_to_leave leave{};
    friend bool operator==(const search&, const search&) = default;
  };
  struct place {
    std::byte* begin = nullptr;  // null: there was none
    slot* first = nullptr;       // that began there
  };

  /// The whole window is free. A step that looked for nothing, as those that follow a plan, leaves what is known.
  void begin_step() noexcept {
    entries_.resize(known());
    next_ = 0;
    history_ = 0;
  }
  /// Something happened to a slot: it was taken, given back, kept or used again.
  void note(const slot& s) noexcept {
    constexpr std::uint64_t odd = 0x9E3779B97F4A7C15ULL;  // 2^64 over the golden ratio: spreads what it multiplies
    const std::uint64_t what = static_cast<std::uint64_t>(s.state) + 4 * (s.state == slot_state::kept ? s.rank : 0);
    history_ = (history_ ^ reinterpret_cast<std::uintptr_t>(s.begin)) * odd;
    history_ = (history_ ^ (history_ >> 32U) ^ what ^ (s.bytes << 20U)) * odd;
  }

  /// What the last step's search found at this point, if it looked for the same and the window's history is the same.
  [[nodiscard]] const place* find(const search& wanted) const noexcept {
    if (next_ == entries_.size()) return nullptr;
    const entry& e = entries_[next_];
    return e.history == history_ && e.wanted == wanted ? &e.found : nullptr;
  }
  void remember(const search& wanted, const place& found) noexcept {
    try {
      if (next_ == entries_.size()) entries_.emplace_back();
      entries_[next_++] = {history_, wanted, found};
    } catch (const std::bad_alloc&) {  // it is searched for once more
    }
  }
  /// What the last step leaves for the next one.
  void print(state_print& to) const {
    for (std::size_t i = 0; i < known(); ++i) {
      const entry& e = entries_[i];
      to.add(e.history);
      to.add(e.wanted.bytes);
      to.add(e.wanted.rank_limit);
      to.add(e.wanted.leave.bytes);
      to.add(reinterpret_cast<std::uintptr_t>(e.found.begin) + (e.wanted.leave.required ? 1 : 0));
    }
  }

private:
  struct entry {
    std::uint64_t history = 0;
    search wanted{};
    place found{};
  };
  /// Entries; what is behind these is of steps before the last that had any.
  [[nodiscard]] std::size_t known() const noexcept { return next_ != 0 ? next_ : entries_.size(); }

  std::vector<entry> entries_;
  std::size_t next_ = 0;
  std::uint64_t history_ = 0;  // of the window in this step, in short
};

}  // namespace hostoffload::inline v0::detail
