#pragma once
// What the detector remembers of an allocation: for each piece the last write, the reads since then, and its state.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/detail/clock.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

/// One operation's access: where it stands in the order, and what to call it in a message. The default stands for the
/// host before everything else.
struct access {
  std::uint64_t tick = 0;
  std::uint64_t call = 0;
  std::uint32_t name = 0;
  std::uint32_t stream = 0;
  lane in_lane = host_lane;
  operation_kind kind = operation_kind::kernel;

  [[nodiscard]] bool before(const vector_clock& c) const noexcept { return c.after(in_lane, tick); }
};

/// The last read of each lane, without those that a later read is ordered behind: usually one or two.
class access_set {
public:
  [[nodiscard]] std::size_t size() const noexcept { return count_ + more_.size(); }
  [[nodiscard]] const access& operator[](std::size_t i) const noexcept {
    return i < count_ ? few_[i] : more_[i - count_];
  }
  void clear() noexcept {
    count_ = 0;
    more_.clear();
  }
  /// `clock` is that of the read `a`.
  void add(const access& a, const vector_clock& clock) {
    if (!more_.empty()) std::erase_if(more_, [&](const access& old) { return old.before(clock); });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      if (!few_[i].before(clock)) few_[kept++] = few_[i];
    }
    count_ = kept;
    if (count_ < few_.size() && more_.empty()) {
      few_[count_++] = a;
    } else {
      more_.push_back(a);
    }
  }

private:
  std::array<access, 2> few_{};
  std::size_t count_ = 0;
  std::vector<access> more_;
};

struct segment {
  std::size_t begin = 0, end = 0;
  bool alive = true;     // not given back by who hands out pieces
  bool written = false;  // since it was allocated
  access write;
  access_set reads;
};

/// Pieces in order, without gaps.
class shadow {
public:
  shadow() = default;
  /// `born` is the allocating operation: accesses must be ordered behind it.
  shadow(std::size_t bytes, bool written, const access& born) : segments_(1) {
    segments_[0].end = bytes;
    segments_[0].written = written;
    segments_[0].write = born;
  }

  /// Calls `visit(segment&)` for the pieces of [begin, end), split so that they lie within it.
  template <typename Visitor>
  void each(std::size_t begin, std::size_t end, Visitor visit) {
    for (std::size_t i = from(begin, end); i < segments_.size() && segments_[i].begin < end; ++i) visit(segments_[i]);
  }

  /// As each(), for a visitor that leaves all pieces in the same state but for `alive`: equal neighbours become one.
  template <typename Visitor>
  void each_and_merge(std::size_t begin, std::size_t end, Visitor visit) {
    const std::size_t first = from(begin, end);
    std::size_t kept = first;
    std::size_t i = first;
    for (; i < segments_.size() && segments_[i].begin < end; ++i) {
      visit(segments_[i]);
      if (i == first) continue;
      if (segments_[i].alive == segments_[kept].alive) {
        segments_[kept].end = segments_[i].end;
      } else if (++kept != i) {
        segments_[kept] = std::move(segments_[i]);
      }
    }
    if (i - first < 2 || kept + 1 == i) return;
    const auto at = [this](std::size_t n) { return segments_.begin() + static_cast<std::ptrdiff_t>(n); };
    segments_.erase(at(kept + 1), at(i));
  }

private:
  // Index of the first piece of [begin, end) after the pieces at both borders were split.
  std::size_t from(std::size_t begin, std::size_t end) {
    const auto ends_after = [](std::size_t at, const segment& s) { return at < s.end; };
    auto it = std::upper_bound(segments_.begin(), segments_.end(), begin, ends_after);
    if (it == segments_.end()) return segments_.size();
    if (it->begin < begin) it = split(it, begin) + 1;
    const std::ptrdiff_t first = it - segments_.begin();
    while (it != segments_.end() && it->end < end) ++it;
    if (it != segments_.end() && it->begin < end && it->end > end) split(it, end);
    return static_cast<std::size_t>(first);
  }

  std::vector<segment>::iterator split(std::vector<segment>::iterator it, std::size_t at) {
    segment front = *it;
    front.end = at;
    it->begin = at;
    return segments_.insert(it, std::move(front));
  }

  std::vector<segment> segments_;
};

}  // namespace hostoffload::inline v0::virtual_gpu::detail
