#pragma once
// Which work is behind which: a clock per stream. Order is established by events, and only where it is not already
// implied by what a stream waited for earlier. Host code never waits here.

#include <hostoffload/cuda/event.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

inline constexpr std::size_t max_streams = 8;
inline constexpr std::size_t usual_streams = 4;  // the scheduler's own and one more: what is beyond is mostly empty
using stream_id = std::uint8_t;

/// For each stream the number of a point in it; being behind a clock is being behind all these points. 0 is no point.
struct stream_clock {
  std::array<std::uint64_t, max_streams> at{};

  void join(const stream_clock& other) noexcept {
    for (std::size_t i = 0; i < usual_streams; ++i) at[i] = std::max(at[i], other.at[i]);
    if (!other.has_more_than_usual()) return;
    for (std::size_t i = usual_streams; i < max_streams; ++i) at[i] = std::max(at[i], other.at[i]);
  }
  void join(stream_id s, std::uint64_t number) noexcept { at[s] = std::max(at[s], number); }
  [[nodiscard]] bool has_more_than_usual() const noexcept {
    std::uint64_t any = 0;
    for (std::size_t i = usual_streams; i < max_streams; ++i) any |= at[i];
    return any != 0;
  }
  friend bool operator==(const stream_clock&, const stream_clock&) = default;
};

/// The streams that a scheduler works with. Points are numbered per stream; point n is an event recorded on it. A
/// number one above the last recorded is a point to come: the event is recorded when somebody first has to wait for it,
/// and all uses that ended since share it.
class stream_order {
public:
  stream_id add(cudaStream_t handle, std::string_view name) {
    streams_.at(count_).handle = handle;
    streams_[count_].name = name;
    return static_cast<stream_id>(count_++);
  }

  [[nodiscard]] cudaStream_t handle(stream_id s) const noexcept { return streams_[s].handle; }
  [[nodiscard]] std::string_view name(stream_id s) const noexcept { return streams_[s].name; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

  /// The id of a stream of the trainer's, beside the ones added. A stream that was destroyed is not taken for a new one
  /// with the same handle: CUDA's ids are unique. Throws usage_error when more streams hold leases at one time than
  /// there is room for.
  stream_id find(cudaStream_t handle) {
    for (std::size_t i = 0; i < fixed_; ++i) {
      if (streams_[i].handle == handle) return static_cast<stream_id>(i);
    }
    unsigned long long unique = 0;
    check(cudaStreamGetId(handle, &unique), "cudaStreamGetId");
    std::size_t free = count_ < max_streams ? count_ : 0;
    for (std::size_t i = fixed_; i < count_; ++i) {
      if (streams_[i].unique == unique) return static_cast<stream_id>(i);
      if (free == 0 && streams_[i].leases == 0) free = i;
    }
    if (free == 0)
      throw usage_error("leases on more than " + std::to_string(max_streams - fixed_) +
                        " streams beside the scheduler's own at one time: end some");
    return adopt(static_cast<stream_id>(free), handle, unique);
  }
  /// The streams added so far are the scheduler's own; they are never given up.
  void fix() noexcept { fixed_ = count_; }

  void lease_begins(stream_id s) noexcept { ++streams_[s].leases; }
  /// On a stream of the trainer's the point is recorded at once: he may destroy it next.
  std::uint64_t lease_ends(stream_id s) {
    --streams_[s].leases;
    return s < fixed_ ? next_point(s) : record(s);
  }
  /// Leases on the trainer's streams may end without a word: next_points() covers them from here on, where that still
  /// works.
  void record_leases() noexcept {
    for (std::size_t i = fixed_; i < count_; ++i) {
      if (streams_[i].leases == 0) continue;
      try {
        record(static_cast<stream_id>(i));
      } catch (const error&) {  // nothing more can be enqueued there
      }
    }
  }
  /// A step is over, and with it every lease.
  void drop_leases() noexcept {
    record_leases();
    for (line& l : streams_) l.leases = 0;
  }

  [[nodiscard]] std::uint64_t next_point(stream_id s) const noexcept { return streams_[s].recorded + 1; }
  [[nodiscard]] std::uint64_t last_point(stream_id s) const noexcept { return streams_[s].recorded; }
  [[nodiscard]] stream_clock next_points() const noexcept {
    stream_clock all;
    for (std::size_t i = 0; i < count_; ++i) {
      all.at[i] = i < fixed_ ? streams_[i].recorded + 1 : streams_[i].recorded;
    }
    return all;
  }

  std::uint64_t record(stream_id s, const purpose& what = {}) {
    line& l = streams_[s];
    const std::uint64_t number = l.recorded + 1;
    if (l.ring.empty() || l.recorded_at(number) > l.step_began) grow(l);
    mark& m = l.ring[number & (l.ring.size() - 1)];
    if (m.number != 0) l.oldest = m.number + 1;
    event_ref(m.recorded).record(l.handle, purpose{what.tensor, what.layer, l.name});
    m.number = number;
    m.behind = l.behind;  // as a whole, before one number of it is written: reading it back would stall
    m.behind.at[s] = l.behind.at[s] = number;
    l.recorded = number;
    return number;
  }

  /// What work enqueued on `s` now is behind; in its own stream, everything.
  [[nodiscard]] stream_clock clock_of(stream_id s) const noexcept {
    stream_clock clock = streams_[s].behind;
    clock.at[s] = ~std::uint64_t{0};
    return clock;
  }

  [[nodiscard]] bool is_behind(stream_id s, const stream_clock& needed) const noexcept {
    for (std::size_t t = 0; t < count_; ++t) {
      if (t != s && streams_[s].behind.at[t] < needed.at[t]) return false;
    }
    return true;
  }

  /// Puts what is enqueued on `s` from now on behind `needed`; waits that another one implies are not issued.
  void put_behind(stream_id s, const stream_clock& needed, const purpose& what = {}) {
    if (is_behind(s, needed)) return;
    for (std::size_t t = 0; t < count_; ++t) {
      if (t != s && needed.at[t] > streams_[t].recorded) record(static_cast<stream_id>(t), what);
    }
    while (const mark* const widest = widest_missing(s, needed)) {
      event_ref(widest->recorded).hold(streams_[s].handle, purpose{what.tensor, what.layer, streams_[s].name});
      streams_[s].behind.join(widest->behind);
    }
  }

  /// Events of the step before may be recorded again from now on, never those of the step that runs: a reference to one
  /// that is gone falls back on the oldest kept, which is later in the same stream.
  void begin_step() noexcept {
    for (line& l : streams_) l.step_began = l.recorded;
  }

  /// All points so far count as passed, by every stream; the trainer's streams are strangers again. For whoever knows
  /// that the streams meet first in a point still to come.
  void begin_anew() noexcept {
    stream_clock passed;
    for (std::size_t t = 0; t < count_; ++t) passed.at[t] = streams_[t].recorded;
    for (std::size_t s = 0; s < fixed_; ++s) streams_[s].behind.join(passed);
    count_ = fixed_;
  }

private:
  struct mark {
    event recorded;
    std::uint64_t number = 0;
    stream_clock behind{};
  };
  struct line {
    cudaStream_t handle = nullptr;
    std::string_view name{};
    unsigned long long unique = 0;
    std::size_t leases = 0;
    std::uint64_t recorded = 0;
    std::uint64_t oldest = 1;  // whose event has not been recorded again
    std::uint64_t step_began = 0;
    stream_clock behind{};
    std::vector<mark> ring{};  // point n in ring[n mod size]; the size is a power of two

    /// The number of the point whose event `number` would take over.
    [[nodiscard]] std::uint64_t recorded_at(std::uint64_t number) const noexcept {
      return ring[number & (ring.size() - 1)].number;
    }
  };

  static void grow(line& l) {
    const std::size_t size = std::max<std::size_t>(16, 2 * l.ring.size());
    std::vector<mark> larger;
    larger.reserve(size);
    while (larger.size() < size) larger.push_back(mark{});
    for (mark& old : l.ring) std::swap(larger[old.number & (size - 1)], old);
    l.ring = std::move(larger);
  }

  static const mark& find_mark(const line& l, std::uint64_t number) noexcept {
    return l.ring[std::max(number, l.oldest) & (l.ring.size() - 1)];
  }

  /// Of the marks that `s` is not behind yet, the one that implies most of the others; null when there is none.
  [[nodiscard]] const mark* widest_missing(stream_id s, const stream_clock& needed) const noexcept {
    std::array<std::size_t, max_streams> missing{};  // streams
    std::size_t size = 0;
    for (std::size_t t = 0; t < count_; ++t) {
      if (t != s && streams_[s].behind.at[t] < needed.at[t]) missing[size++] = t;
    }
    const mark* widest = nullptr;
    std::size_t most = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const mark& m = find_mark(streams_[missing[i]], needed.at[missing[i]]);
      if (size == 1) return &m;
      std::size_t implied = 0;
      for (std::size_t j = 0; j < size; ++j) {
        if (m.behind.at[missing[j]] >= needed.at[missing[j]]) ++implied;
      }
      if (implied > most) {
        widest = &m;
        most = implied;
      }
    }
    return widest;
  }

  stream_id adopt(stream_id s, cudaStream_t handle, unsigned long long unique) {
    line& l = streams_[s];
    l.handle = handle;
    l.unique = unique;
    l.name = "of a lease";
    l.behind = {};
    if (s == count_) {
      ++count_;
    } else if (l.recorded != 0) {  // so that its points stay in one order
      const mark& m = find_mark(l, l.recorded);
      event_ref(m.recorded).hold(handle, purpose{{}, 0, l.name});
      l.behind.join(m.behind);
    }
    return s;
  }

  std::array<line, max_streams> streams_{};
  std::size_t count_ = 0;
  std::size_t fixed_ = 0;
};

}  // namespace hostoffload::inline v0::detail
