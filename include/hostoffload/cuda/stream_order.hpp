#pragma once
// Which work is behind which: a clock per stream. Order is established by events, and only where it is not already
// implied by what a stream waited for earlier. Host code never waits here.

#include <hostoffload/cuda/call_tape.hpp>
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

inline constexpr std::size_t usual_streams = 4;  // the scheduler's own and one more: what is beyond is mostly empty

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

/// A state as numbers, to be compared with those of another time.
struct state_print {
  std::vector<std::uint64_t> numbers;
  std::vector<const stream_clock*> clocks;  // that somebody may have to go behind
  std::vector<std::uint64_t> points;        // for sorting

  void clear() noexcept {
    numbers.clear();
    clocks.clear();
  }
  void add(std::uint64_t number) { numbers.push_back(number); }
  void add(const stream_clock& c) { clocks.push_back(&c); }
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
  /// there is room for. `before_new` is called before a stream is given an id.
  stream_id find(cudaStream_t handle) {
    return find(handle, [] {});
  }
  template <class BeforeNew>
  stream_id find(cudaStream_t handle, BeforeNew&& before_new) {
    for (std::size_t i = 0; i < fixed_; ++i) {
      if (streams_[i].handle == handle) return static_cast<stream_id>(i);
    }
    unsigned long long unique = 0;
    check(cudaStreamGetId(handle, &unique), "cudaStreamGetId");
    for (std::size_t i = fixed_; i < count_; ++i) {
      if (streams_[i].unique == unique) return static_cast<stream_id>(i);
    }
    before_new();
    std::size_t free = count_ < max_streams ? count_ : 0;
    for (std::size_t i = fixed_; i < count_; ++i) {
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
  /// On a stream of the trainer's the point is recorded at once: he may destroy it next. Where that fails the lease
  /// goes on.
  std::uint64_t lease_ends(stream_id s) {
    const std::uint64_t point = s < fixed_ ? next_point(s) : record(s);
    --streams_[s].leases;
    return point;
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
  /// Behind all that was enqueued there to be waited for: the last point, or the one to come where that could not be
  /// recorded.
  [[nodiscard]] std::uint64_t end_point(stream_id s) const noexcept {
    return streams_[s].recorded + (s < fixed_ && streams_[s].record_failed ? 1 : 0);
  }
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
    l.record_failed = true;
    if (l.ring.empty() || l.recorded_at(number) > l.step_began) grow(l);
    mark& m = l.ring[number & (l.ring.size() - 1)];
    if (m.number != 0) l.oldest = m.number + 1;
    calls_.record(l.event_of(number), l.handle, s, number, purpose{what.tensor, what.layer, l.name});
    l.record_failed = false;
    m.number = number;
    m.of = s;
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
      hold(s, *widest, what);
      streams_[s].behind.join(widest->behind);
    }
  }

  /// Events of the step before may be recorded again from now on, never those of the step that runs: a reference to one
  /// that is gone falls back on the oldest kept, which is later in the same stream.
  void begin_step() noexcept {
    for (line& l : streams_) l.step_began = l.recorded;
  }

  /// What enqueues the events' calls, and all others of a step.
  [[nodiscard]] call_tape& calls() noexcept { return calls_; }
  [[nodiscard]] std::array<std::uint64_t, max_streams> last_points() const noexcept {
    std::array<std::uint64_t, max_streams> last{};
    for (std::size_t s = 0; s < count_; ++s) last[s] = streams_[s].recorded;
    return last;
  }
  /// The step to come, as the calls have it: its points are counted from here.
  void begin_playing() noexcept {
    std::array<call_tape::points, max_streams> all{};
    for (std::size_t s = 0; s < count_; ++s) {
      const line& l = streams_[s];
      const std::size_t size = l.events.size();
      if (size != 0) all[s] = l.handles.data() + size + ((l.recorded + l.turned) & (size - 1));
    }
    calls_.begin_playing(all);
  }
  /// It has been played to its end, with so many points on each stream. They take the numbers of the step before's:
  /// what was said in those of that step holds for this one.
  void end_playing(const std::array<std::uint64_t, max_streams>& points) noexcept {
    for (std::size_t s = 0; s < count_; ++s) streams_[s].turned += points[s];
  }

  /// Prints the same at two times at which put_behind() issues the same waits for all of `to.clocks`, and for whatever
  /// is recorded from then on. Points that every stream has passed do not matter. Of the others it matters how far they
  /// lie back, as far as their events are kept, and which of them a stream has passed.
  void print(state_print& to) const {
    stream_clock passed;
    for (std::size_t t = 0; t < count_; ++t) {
      passed.at[t] = ~std::uint64_t{0};
      for (std::size_t s = 0; s < count_; ++s) {
        if (s != t) passed.at[t] = std::min(passed.at[t], streams_[s].behind.at[t]);
      }
    }
    to.points.clear();
    for (const stream_clock* c : to.clocks) {
      for (std::size_t t = 0; t < count_; ++t) {
        if (c->at[t] > passed.at[t]) to.points.push_back(key(t, c->at[t]));
      }
    }
    std::sort(to.points.begin(), to.points.end());
    to.points.erase(std::unique(to.points.begin(), to.points.end()), to.points.end());
    const auto place = [&to](std::size_t t, std::uint64_t number) {
      return static_cast<std::uint64_t>(std::upper_bound(to.points.begin(), to.points.end(), key(t, number)) -
                                        to.points.begin());
    };
    const auto add_places = [&](const stream_clock& behind) {
      for (std::size_t t = 0; t < count_; ++t) to.add(place(t, behind.at[t]));
    };
    to.add(count_);
    for (std::size_t s = 0; s < count_; ++s) {
      const line& l = streams_[s];
      to.add(l.unique);
      to.add(l.ring.size());
      to.add(l.recorded - l.oldest);
      add_places(l.behind);
    }
    for (const stream_clock* c : to.clocks) {
      for (std::size_t t = 0; t < max_streams; ++t) {
        const std::uint64_t number = c->at[t];
        if (t >= count_ || number <= passed.at[t]) {
          to.add(t >= count_ ? number : 0);
          continue;
        }
        const line& l = streams_[t];
        to.add(l.recorded + 2 - std::max(number, l.oldest));
        to.add(place(t, number));
        if (number <= l.recorded) add_places(find_mark(l, number).behind);
      }
    }
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
    std::uint64_t number = 0;
    stream_id of = 0;
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
    bool record_failed = false;  // the last time
    stream_clock behind{};
    std::vector<mark> ring{};  // point n in ring[n mod size]; the size is a power of two
    std::vector<event> events{};
    std::uint64_t turned = 0;            // and its event in events[(n + turned) mod size]
    std::vector<cudaEvent_t> handles{};  // of the events, three times: one ring's length before and behind each

    /// The number of the point whose event `number` would take over.
    [[nodiscard]] std::uint64_t recorded_at(std::uint64_t number) const noexcept {
      return ring[number & (ring.size() - 1)].number;
    }
    [[nodiscard]] event& event_of(std::uint64_t number) noexcept {
      return events[(number + turned) & (events.size() - 1)];
    }
  };

  /// Twice the room, when the step that runs has recorded every event.
  static void grow(line& l) {
    const std::size_t size = std::max<std::size_t>(4, 2 * l.ring.size());
    std::vector<event> fresh(size - l.ring.size());
    std::vector<mark> larger(size);
    std::vector<event*> known(size, nullptr);
    for (const mark& old : l.ring) {
      larger[old.number & (size - 1)] = old;
      known[old.number & (size - 1)] = &l.event_of(old.number);
    }
    std::vector<event> events;
    events.reserve(size);
    for (event* const e : known) {
      events.push_back(std::move(e != nullptr ? *e : fresh.back()));
      if (e == nullptr) fresh.pop_back();
    }
    std::vector<cudaEvent_t> handles;
    handles.reserve(3 * size);
    for (std::size_t i = 0; i < 3 * size; ++i) handles.push_back(events[i & (size - 1)].get());
    l.ring = std::move(larger);
    l.events = std::move(events);
    l.handles = std::move(handles);
    l.turned = 0;
  }

  /// `s` waits for the event of `m`.
  void hold(stream_id s, const mark& m, const purpose& what) {
    calls_.wait(streams_[m.of].event_of(m.number), streams_[s].handle, m.of, m.number,
                purpose{what.tensor, what.layer, streams_[s].name});
  }

  /// Points of all streams, sorted by stream.
  static std::uint64_t key(std::size_t stream, std::uint64_t number) noexcept {
    constexpr unsigned bits = 56;
    return static_cast<std::uint64_t>(stream) << bits | number;
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
      hold(s, m, {});
      l.behind.join(m.behind);
    }
    return s;
  }

  call_tape calls_;
  std::array<line, max_streams> streams_{};
  std::size_t count_ = 0;
  std::size_t fixed_ = 0;
};

}  // namespace hostoffload::inline v0::detail
