#pragma once
// What a step asks of the scheduler, request by request, beside the calls that this leads to (call_tape). A step that
// comes again, from a state in which the same is decided, is played: each request is compared with the one that was
// next, and its calls are enqueued. No decision, search or clock is left.
//
// A tape is written in every step that is not played. It is good when two steps in a row ask the same, and the states
// in which they begin print the same numbers. One of a step that went on after a request had failed is not: its calls
// are others than the same requests lead to when none fails.

#include <hostoffload/coroutine/loop.hpp>
#include <hostoffload/cuda/stream_order.hpp>
#include <hostoffload/report/step_report.hpp>
#include <hostoffload/schedule/tensor_record.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

enum class request_kind : std::uint8_t {
  lease,       // of values that are there, or arrive
  make,        // the define function has to run
  make_again,  // the same for values that were dropped
  made,        // it has run; the lease on what it made
  produce,     // a writable lease
  end,         // of a lease
};

struct taped_request {
  tensor_record* tensor = nullptr;
  std::byte* data = nullptr;     // that the lease is given
  std::uint32_t asked = 0;       // see key()
  std::uint32_t first_call = 0;  // of those that it leads to, in the call_tape
  std::uint32_t calls_end = 0;
  std::uint32_t number = 0;  // of a lease: its generation, above the tensor's at the step's beginning;
                             // make: of the first room, of one or more, that the function writes

  /// `flag`: lease, make, made: the last use; end: of a writable lease.
  [[nodiscard]] static constexpr std::uint32_t key(request_kind is, stream_id on, bool flag) noexcept {
    return static_cast<std::uint32_t>(is) | (static_cast<std::uint32_t>(on) << 8U) | (flag ? 1U << 16U : 0U);
  }
  [[nodiscard]] request_kind is() const noexcept { return static_cast<request_kind>(asked & 0xFFU); }
  [[nodiscard]] stream_id on() const noexcept { return static_cast<stream_id>(asked >> 8U & 0xFFU); }
  [[nodiscard]] bool flag() const noexcept { return asked >> 16U != 0; }
  [[nodiscard]] bool makes() const noexcept { return is() == request_kind::make || is() == request_kind::make_again; }
  [[nodiscard]] bool asks(const tensor_record& of, std::uint32_t with_key) const noexcept {
    return tensor == &of && asked == with_key;
  }
};
static_assert(sizeof(taped_request) == 32, "small, since a step has many");

class step_tape {
public:
  struct room {
    tensor_record* of = nullptr;
    std::byte* at = nullptr;
  };

  [[nodiscard]] bool writing() const noexcept { return writing_; }
  [[nodiscard]] bool playing() const noexcept { return playing_; }

  /// A step begins that is not played: the state changes.
  void begin_step(bool written) noexcept {
    at_start_ = false;
    writing_ = written && !good_;
    if (!writing_) return;
    position_ = 0;
    same_ = true;
    rooms_.clear();
  }
  void write(const taped_request& r) noexcept {
    try {
      if (position_ == requests_.size()) {
        same_ = false;
        requests_.push_back(r);
      } else {
        same_ = same_ && requests_[position_].asks(*r.tensor, r.asked);
        requests_[position_] = r;
      }
      ++position_;
    } catch (const std::bad_alloc&) {
      spoil();
    }
  }
  /// Memory for what a define function writes, before the request is written; of no tensor behind the last.
  void write_room(const room& r) noexcept {
    try {
      rooms_.push_back(r);
    } catch (const std::bad_alloc&) {
      spoil();
    }
  }
  /// The step cannot be repeated.
  void spoil() noexcept {
    if (!writing_) return;
    writing_ = same_ = false;
    requests_.clear();
  }
  /// It is over: with this report, and so many points on each stream.
  void end_step(const step_report& report, const std::array<std::uint64_t, max_streams>& points) {
    if (!std::exchange(writing_, false)) return;
    same_ = same_ && position_ + 1 == requests_.size();
    requests_.resize(position_);
    requests_.push_back({});
    report_ = report;
    report_.repeated = true;
    points_ = points;
  }

  /// Whether the state at the beginning of the next step has to be looked at.
  [[nodiscard]] bool wants_state() noexcept {
    if (at_start_) return false;
    if (good_ || ++looks_ <= many_looks) return true;  // so that whatever allocates does so in the first steps
    const bool wanted = same_ && looks_ % many_looks < 2;
    if (!wanted) start_.clear();  // the step that is written next begins in a state that nobody has seen
    return wanted;
  }
  void look(std::vector<std::uint64_t>& state) {
    at_start_ = (good_ || same_) && state == start_;
    if (!good_) departures_ = 0;
    if (good_ && !at_start_) ++departures_;
    if ((good_ || at_start_) && departures_ < lasting) {
      good_ = true;
      return;
    }
    good_ = at_start_ = false;
    start_.swap(state);
    state.reserve(start_.capacity());
  }
  /// Something else than a step changes the state. Steps before and after it may begin alike without one leading to the
  /// other, and a step is played only if it leaves the state in which it began.
  void interrupt() noexcept {
    at_start_ = false;
    if (!good_) start_.clear();
  }
  /// Whether the step that begins may be played.
  [[nodiscard]] bool is_good() const noexcept { return good_ && at_start_; }

  void begin_playing() noexcept {
    playing_ = true;
    next_ = requests_.data();
  }
  /// The request that comes next; of no tensor at the end.
  [[nodiscard]] const taped_request& next() const noexcept { return *next_; }
  void advance() noexcept { ++next_; }
  [[nodiscard]] std::uint32_t calls_so_far() const noexcept {
    return next_ == requests_.data() ? 0 : next_[-1].calls_end;
  }
  [[nodiscard]] const room* rooms_of(const taped_request& r) const noexcept { return &rooms_[r.number]; }
  [[nodiscard]] std::uint32_t rooms() const noexcept { return static_cast<std::uint32_t>(rooms_.size()); }
  [[nodiscard]] const std::array<std::uint64_t, max_streams>& points() const noexcept { return points_; }
  /// What the step did, under a new number.
  [[nodiscard]] step_report& end_playing(std::uint64_t step) noexcept {
    playing_ = false;
    departures_ = 0;
    report_.step = step;
    return report_;
  }
  /// Something else is asked: what has been played so far.
  [[nodiscard]] std::span<const taped_request> stop() noexcept {
    playing_ = at_start_ = false;
    ++departures_;
    return {requests_.data(), next_};
  }
  /// Tensors or plans come or go.
  void forget() noexcept {
    playing_ = writing_ = good_ = same_ = at_start_ = false;
    looks_ = 0;
    requests_.clear();
    start_.clear();
  }

private:
  /// After so many departures, or beginnings in another state, without a step that was played to its end.
  static constexpr unsigned lasting = 4;
  /// From then on a look at two steps of so many: the state may never be the same.
  static constexpr unsigned many_looks = 16;

  std::vector<taped_request> requests_;  // and one of no tensor
  std::vector<room> rooms_;
  std::vector<std::uint64_t> start_;  // the state in which the step began that was written last
  step_report report_;
  std::array<std::uint64_t, max_streams> points_{};
  std::size_t position_ = 0;  // that is written next
  const taped_request* next_ = nullptr;
  unsigned departures_ = 0;
  unsigned looks_ = 0;
  bool writing_ = false;
  bool playing_ = false;
  bool same_ = false;      // the last two written steps asked the same
  bool good_ = false;      // and began in the same state
  bool at_start_ = false;  // the state is that one
};

}  // namespace hostoffload::inline v0::detail
