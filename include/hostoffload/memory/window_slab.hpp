#pragma once
// The slab of the window: one contiguous region in which slots of any size come and go. Its size is the hard bound of
// the window. Host code decides at once who gets which bytes; the device catches up in stream order.

#include <hostoffload/cuda/allocation.hpp>
#include <hostoffload/memory/slot.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace hostoffload::inline v0::detail {

class window_slab {
public:
  window_slab() = default;
  explicit window_slab(memory_region region) : total_(region.bytes) {
    if (region.bytes == 0) return;
    slot& all = fresh();
    all.begin = static_cast<std::byte*>(region.begin);
    all.bytes = region.bytes;
    first_ = &all;
  }
  window_slab(const window_slab&) = delete;
  window_slab& operator=(const window_slab&) = delete;

  /// Bytes to be left in one piece for what is still to be in use at the same time: if possible, or else nothing is
  /// taken.
  struct room_to_leave {
    std::size_t bytes = 0;
    bool required = false;
    friend bool operator==(const room_to_leave&, const room_to_leave&) = default;
  };

  /// A slot of `bytes` (a multiple of the alignment), made of neighbouring free slots and kept ones of rank below
  /// `rank_limit`; `evict` is called for the owner of each kept one. Null when there is no room. The slot's `behind` is
  /// what its user has to be behind.
  template <class Evict>
  slot* take(std::size_t bytes, tensor_record& owner, std::uint64_t rank_limit, room_to_leave leave,
             const stream_clock& taker, Evict&& evict) {
    const place chosen = find(bytes, rank_limit, leave.bytes, taker);
    if (chosen.first == nullptr || (leave.required && chosen.left < leave.bytes)) return nullptr;
    slot* s = chosen.first;
    for (slot* i = s;; i = i->next) {
      if (i->state == slot_state::kept) {
        evict(*i->owner);
        i->state = slot_state::free;
        i->owner = nullptr;
        i->rank = 0;
      }
      if (i == chosen.last) break;
    }
    slot* last = chosen.last;
    if (chosen.rest != 0 && chosen.at_end) {
      const bool one = s == last;
      s = &split(*s, chosen.rest);
      if (one) last = s;
    } else if (chosen.rest != 0) {
      split(*last, last->bytes - chosen.rest);
    }
    for (bool whole = s == last; !whole;) {
      whole = s->next == last;
      merge_next(*s);
    }
    s->state = slot_state::in_use;
    s->owner = &owner;
    return s;
  }

  /// The slot of `bytes` that begins `offset` bytes into the slab, as take() does; null when something is in use there.
  template <class Evict>
  slot* take_at(std::size_t offset, std::size_t bytes, tensor_record& owner, Evict&& evict) {
    if (offset + bytes > total_) return nullptr;
    slot* s = first_;
    std::size_t before = 0;
    for (; before + s->bytes <= offset; s = s->next) before += s->bytes;
    return take_from(*s, before, offset, bytes, owner, evict);
  }
  /// The same where `at` is known to be a slot, or to have been one that began at `begin`.
  template <class Evict>
  slot* take_at(slot& at, std::byte* begin, std::size_t bytes, tensor_record& owner, Evict&& evict) {
    const auto offset = static_cast<std::size_t>(begin - first_->begin);
    if (at.begin == begin) return take_from(at, offset, offset, bytes, owner, evict);
    return take_at(offset, bytes, owner, evict);
  }

  void give_back(slot& s, const stream_clock& behind) noexcept {
    s.state = slot_state::free;
    s.owner = nullptr;
    s.behind = behind;
    s.rank = 0;
    s.freed = ++given_back_;
    if (s.next != nullptr && s.next->state == slot_state::free && s.next->behind == behind) merge_next(s);
    if (s.previous != nullptr && s.previous->state == slot_state::free && s.previous->behind == behind)
      merge_next(*s.previous);
  }

  /// Whoever takes a slot next goes behind `behind`, whatever was before.
  void all_behind(const stream_clock& behind) noexcept {
    for (slot* s = first_; s != nullptr; s = s->next) s->behind = behind;
  }
  template <class Visitor>
  void each(Visitor&& visit) const {
    for (const slot* s = first_; s != nullptr; s = s->next) visit(*s);
  }

  /// What the choice of places depends on. Nothing is in use or kept.
  void print(state_print& to) const {
    to.points.clear();
    for (const slot* s = first_; s != nullptr; s = s->next) to.points.push_back(s->freed);
    std::sort(to.points.begin(), to.points.end());
    for (const slot* s = first_; s != nullptr; s = s->next) {
      const auto order = std::lower_bound(to.points.begin(), to.points.end(), s->freed) - to.points.begin();
      to.add(static_cast<std::uint64_t>(order));
      to.add(s->bytes);
      to.add(s->behind);
    }
  }

  [[nodiscard]] std::size_t total_bytes() const noexcept { return total_; }

  /// The largest piece that nothing leased divides.
  [[nodiscard]] std::size_t largest_room() const noexcept { return runs().largest; }

private:
  struct place {
    slot* first = nullptr;
    slot* last = nullptr;
    bool at_end = false;      // of the pieces from first to last: the rest, if any, stays in front
    std::size_t left = 0;     // in one piece, of what was asked to be left
    std::uint64_t rank = 0;   // the highest taken
    bool ready = false;       // nothing to wait for
    std::uint64_t freed = 0;  // the latest
    std::size_t rest = 0;
  };

  /// Pieces that nothing in use divides, by size.
  struct room {
    std::size_t largest = 0;
    std::size_t second = 0;
  };
  [[nodiscard]] room runs() const noexcept {
    room found;
    for (slot* s = first_; s != nullptr;) {
      std::size_t run = 0;
      slot* const first = s;
      for (; s != nullptr && s->state != slot_state::in_use; s = s->next) run += s->bytes;
      first->run = run;
      if (run > found.largest) {
        found.second = std::exchange(found.largest, run);
      } else {
        found.second = std::max(found.second, run);
      }
      if (s != nullptr) s = s->next;
    }
    return found;
  }

  static bool better(const place& a, const place& b) noexcept {
    if (b.first == nullptr) return true;
    if (a.left != b.left) return a.left > b.left;
    if (a.rank != b.rank) return a.rank < b.rank;
    if (a.ready != b.ready) return a.ready;
    if (!a.ready && a.freed != b.freed) return a.freed < b.freed;
    return a.rest < b.rest;
  }

  place find(std::size_t bytes, std::uint64_t rank_limit, std::size_t to_come,
             const stream_clock& taker) const noexcept {
    slot* s = first_room(bytes, rank_limit);
    if (s == nullptr) return {};
    const room all = to_come != 0 ? runs() : room{};  // nobody asks for more: how much is left does not matter
    place best;
    std::uint64_t limit = rank_limit;
    const slot* run = nullptr;  // the piece that `s` is in, undivided by slots in use
    std::size_t before = 0;     // bytes of it in front of `s`
    for (; s != nullptr; before += s->bytes, s = s->next) {
      if (s->state == slot_state::in_use) {
        run = nullptr;
        continue;
      }
      if (run == nullptr) {
        run = s;
        before = 0;
      }
      if (!may_take(*s, limit)) continue;
      const auto left_by = [&](std::size_t in_front) {
        if (to_come == 0) return std::size_t{0};
        const std::size_t elsewhere = run->run == all.largest ? all.second : all.largest;
        return std::min(to_come, std::max({elsewhere, in_front, run->run - in_front - bytes}));
      };
      consider(best, forward(s, bytes, limit, taker), left_by, before);
      if (s->bytes != bytes) {  // else the same place
        consider(best, backward(s, bytes, limit, taker), left_by, before + s->bytes - bytes);
      }
      if (best.first == nullptr || best.left != to_come) continue;
      limit = best.rank + 1;  // with as much left as is asked for, only a place of no higher rank can be better,
      if (best.rank == 0 && best.ready && best.rest == 0) break;  // and than this none
    }
    return best;
  }

  /// The first slot of the first piece, undivided by slots in use, that has a place; null when there is none.
  [[nodiscard]] slot* first_room(std::size_t bytes, std::uint64_t rank_limit) const noexcept {
    slot* piece = nullptr;
    std::size_t sum = 0;
    for (slot* s = first_; s != nullptr; s = s->next) {
      if (s->state == slot_state::in_use) {
        piece = nullptr;
        sum = 0;
        continue;
      }
      if (piece == nullptr) piece = s;
      sum = may_take(*s, rank_limit) ? sum + s->bytes : 0;
      if (sum >= bytes) return piece;
    }
    return nullptr;
  }
  static bool may_take(const slot& s, std::uint64_t rank_limit) noexcept {
    return s.state != slot_state::in_use && s.rank < rank_limit;
  }

  template <class LeftBy>
  static void consider(place& best, place candidate, const LeftBy& left_by, std::size_t in_front) noexcept {
    if (candidate.first == nullptr) return;
    candidate.left = left_by(in_front);
    if (better(candidate, best)) best = candidate;
  }

  /// The bytes that begin where `s` begins.
  static place forward(slot* s, std::size_t bytes, std::uint64_t rank_limit, const stream_clock& taker) noexcept {
    place found{.first = s, .ready = true};
    std::size_t sum = 0;
    for (slot* i = s; i != nullptr && add(found, *i, sum, rank_limit, taker); i = i->next) {
      if (sum < bytes) continue;
      found.last = i;
      found.rest = sum - bytes;
      return found;
    }
    return {};
  }

  /// The bytes that end where `s` ends.
  static place backward(slot* s, std::size_t bytes, std::uint64_t rank_limit, const stream_clock& taker) noexcept {
    place found{.last = s, .at_end = true, .ready = true};
    std::size_t sum = 0;
    for (slot* i = s; i != nullptr && add(found, *i, sum, rank_limit, taker); i = i->previous) {
      if (sum < bytes) continue;
      found.first = i;
      found.rest = sum - bytes;
      return found;
    }
    return {};
  }

  static bool add(place& p, const slot& s, std::size_t& sum, std::uint64_t rank_limit,
                  const stream_clock& taker) noexcept {
    if (!may_take(s, rank_limit)) return false;
    p.rank = std::max(p.rank, s.rank);
    p.freed = std::max(p.freed, s.freed);
    p.ready = p.ready && is_covered(s.behind, taker);
    sum += s.bytes;
    return true;
  }

  /// `first` begins `before` bytes into the slab and holds the offset.
  template <class Evict>
  slot* take_from(slot& first, std::size_t before, std::size_t offset, std::size_t bytes, tensor_record& owner,
                  Evict&& evict) {
    std::size_t end = before;
    for (slot* i = &first; end < offset + bytes; end += i->bytes, i = i->next) {
      if (i->state == slot_state::in_use) return nullptr;
    }
    end = before;
    for (slot* i = &first; end < offset + bytes; end += i->bytes, i = i->next) {
      if (i->state != slot_state::kept) continue;
      evict(*i->owner);
      i->state = slot_state::free;
      i->owner = nullptr;
      i->rank = 0;
    }
    slot* s = &first;
    if (before < offset) s = &split(*s, offset - before);
    if (s->bytes > bytes) split(*s, bytes);
    while (s->bytes < bytes) {
      const std::size_t missing = bytes - s->bytes;
      if (s->next->bytes > missing) split(*s->next, missing);
      merge_next(*s);
    }
    s->state = slot_state::in_use;
    s->owner = &owner;
    return s;
  }

  slot& fresh() {
    if (spare_ == nullptr) return nodes_.emplace_back();
    slot& s = *spare_;
    spare_ = s.next;
    s = slot{};
    return s;
  }

  /// Cuts `s` after `bytes` and returns the rest, free.
  slot& split(slot& s, std::size_t bytes) {
    slot& rest = fresh();
    rest.begin = s.begin + bytes;
    rest.bytes = s.bytes - bytes;
    rest.behind = s.behind;
    rest.freed = s.freed;
    rest.previous = &s;
    rest.next = s.next;
    if (rest.next != nullptr) rest.next->previous = &rest;
    s.bytes = bytes;
    s.next = &rest;
    return rest;
  }

  /// Whoever takes the two goes behind both.
  void merge_next(slot& s) noexcept {
    slot& gone = *s.next;
    s.bytes += gone.bytes;
    s.behind.join(gone.behind);
    s.freed = std::max(s.freed, gone.freed);
    s.next = gone.next;
    if (s.next != nullptr) s.next->previous = &s;
    gone = slot{};
    gone.next = spare_;
    spare_ = &gone;
  }

  std::size_t total_ = 0;
  std::uint64_t given_back_ = 0;
  slot* first_ = nullptr;
  slot* spare_ = nullptr;
  std::deque<slot> nodes_;
};

}  // namespace hostoffload::inline v0::detail
