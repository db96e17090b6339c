#pragma once
// What happens to the tensors of a step that is timed, in order, and when: its events are read some steps later.
// Nothing here waits, and a step that is not timed leaves nothing here.

#include <hostoffload/cuda/event.hpp>
#include <hostoffload/schedule/link_fit.hpp>
#include <hostoffload/schedule/recorded_step.hpp>
#include <hostoffload/schedule/step_timeline.hpp>
#include <hostoffload/schedule/step_trace.hpp>
#include <hostoffload/schedule/tensor_record.hpp>
#include <hostoffload/schedule/use_sequence.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

/// The step that was timed last.
struct timed_step {
  recorded_step whole{};     // every tensor
  recorded_step windowed{};  // the offloaded ones alone, with points of their own: what is planned for
  std::vector<sequence_entry> sequence{};
  bool plannable = false;       // nothing was in it that plans know nothing of
  double step_s = 0;            // of the compute stream, with its waits
  bool followed = false;        // a plan, to its end
  bool never_together = false;  // the first one, and in it the directions of the link: what they do then is not known
};

class step_recorder {
public:
  /// Times are taken where nothing taken before is still to be read.
  void begin(std::uint64_t step, bool timed, cudaStream_t compute) {
    compute_ = compute;
    timing_ = timed && !pending_;
    if (!timing_) return;
    marks_.clear();
    trace_.clear();
    for (auto& c : copies_) c.clear();
    used_ = 0;
    points_ = 0;
    timed_step_ = step;
    record_mark(mark_kind::point);
  }
  [[nodiscard]] bool timing() const noexcept { return timing_; }

  // What happens, while timing(); `inside` as step_trace has it.
  void making_begins(const maker& by, const void* inside, bool again) {
    trace_.making_begins(by, inside, again, new_point());
  }
  void making_ends(const maker& by) { trace_.making_ends(by, new_point()); }
  /// `first`: no other lease on it is held.
  void lease_begins(tensor_record& r, const void* inside, bool first) {
    const bool is_use = first && !r.temporary;
    const std::uint32_t point = is_use ? new_point() : points_;
    trace_.awaits(r, inside, point);
    if (is_use) trace_.use(r, trace_event::begins, point);
  }
  void produce_begins(tensor_record& r, const void* inside) {
    if (inside != nullptr) trace_.spoil();
    trace_.use(r, trace_event::begins, new_point());
  }
  void use_ends(tensor_record& r) {
    if (!r.temporary) trace_.use(r, trace_event::ends, new_point());
  }
  void life_is_over(tensor_record& r) {
    if (!r.temporary) trace_.use(r, trace_event::over, points_);
  }
  void is_dropped(tensor_record& r) { trace_.use(r, trace_event::dropped, points_); }
  /// Something that no record tells of.
  void spoil() noexcept { trace_.spoil(); }

  void wait_begins() {
    if (timing_) record_mark(mark_kind::wait);
  }
  void wait_ends() {
    if (timing_) record_mark(mark_kind::end_of_wait);
  }
  /// Around a copy on its stream.
  void copy_begins(link_way w, std::size_t bytes, cudaStream_t on) {
    if (timing_) copies_[static_cast<std::size_t>(w)].push_back({record(on), 0, bytes});
  }
  void copy_ends(link_way w, cudaStream_t on) {
    if (timing_) copies_[static_cast<std::size_t>(w)].back().end = record(on);
  }

  /// The step is over.
  void end(bool plannable, bool followed) {
    if (!timing_) return;
    record_mark(mark_kind::point);
    timing_ = false;
    if (!trace_.is_good()) return;
    pending_ = true;
    timed_.plannable = plannable;
    timed_.followed = followed;
    if (known_ == trace_.entries()) return;
    known_ = trace_.entries();
    trace_reader reader(known_);
    timed_.whole.lives = std::move(reader.result().lives);
    timed_.whole.makings = std::move(reader.result().makings);
    timed_.sequence = sequence_of(known_);
    timed_.windowed.lives = lives_of(timed_.sequence);
  }
  void abandon() noexcept { timing_ = false; }
  /// Tensors come or go: what was seen of them is void.
  void forget() noexcept {
    pending_ = timing_ = false;
    known_.clear();
  }

  [[nodiscard]] bool pending() const noexcept { return pending_; }
  /// What happened in the step that was read last.
  [[nodiscard]] const std::vector<trace_entry>& trace() const noexcept { return known_; }

  /// The step that was timed, if it lies two steps back and the device has completed it; null otherwise. Without copies
  /// in it the link is as seen before. Allocates where the step differs from the one timed before.
  [[nodiscard]] const timed_step* read(std::uint64_t step) {
    if (!pending_ || step < timed_step_ + 2) return nullptr;
    const std::optional<double> step_s = seconds(marks_.front().at, marks_.back().at);
    if (!step_s) return nullptr;
    pending_ = false;
    timed_.step_s = *step_s;
    read_segments();
    read_copies();
    read_link();
    read_waits();
    timed_.windowed.wait_latency_s = timed_.whole.wait_latency_s;
    timed_.windowed.out = timed_.whole.out;
    timed_.windowed.in = timed_.whole.in;
    return &timed_;
  }

private:
  static constexpr double least_pause_s = 2e-6;  // of a direction that was idle: events are that exact

  enum class mark_kind : std::uint8_t { point, wait, end_of_wait };
  struct mark_at {
    std::size_t at = 0;  // in events_
    mark_kind kind = mark_kind::point;
  };
  struct copy_marks {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t bytes = 0;
  };

  void read_link() {
    const auto out = fit_link(seen_[0], seen_[1]);
    const auto in = fit_link(seen_[1], seen_[0]);
    if (!out && !in) return;
    const auto nobody_knows = [](const link_direction& now, const link_direction& before) {
      return now.rate_while_both == 0 && before.rate == 0;
    };
    // What the copies of this step do not tell is as before, or else no slower.
    const auto complete = [](link_direction now, const link_direction& before) {
      if (now.rate_while_both == 0)
        now.rate_while_both = before.rate > 0 ? now.rate * before.rate_while_both / before.rate : now.rate;
      return now;
    };
    recorded_step& known = timed_.whole;
    timed_.never_together = nobody_knows(out ? *out : *in, known.out) || nobody_knows(in ? *in : *out, known.in);
    known.out = complete(out ? *out : *in, known.out);
    known.in = complete(in ? *in : *out, known.in);
  }

  /// How long after the last copy before it each wait ended: the median of those in which a copy ended.
  void read_waits() {
    std::vector<double>& after = wait_latencies_;
    after.clear();
    std::array<std::size_t, 2> ended{};
    for (std::size_t i = 1; i < marks_.size(); ++i) {
      if (marks_[i].kind != mark_kind::end_of_wait) continue;
      const double waited_s = seconds(marks_[i - 1].at, marks_[i].at).value_or(0);
      double last_s = never;
      for (std::size_t way = 0; way < copies_.size(); ++way) {
        const std::vector<copy_marks>& copies = copies_[way];
        std::size_t& n = ended[way];
        while (n < copies.size() && seconds(copies[n].end, marks_[i].at).value_or(-1) >= 0) ++n;
        if (n > 0) last_s = std::min(last_s, seconds(copies[n - 1].end, marks_[i].at).value_or(never));
      }
      if (waited_s > least_pause_s && last_s < waited_s) after.push_back(last_s);
    }
    if (after.empty()) return;
    const auto middle = after.begin() + static_cast<std::ptrdiff_t>(after.size() / 2);
    std::nth_element(after.begin(), middle, after.end());
    timed_.whole.wait_latency_s = *middle;
  }

  void record_mark(mark_kind kind) { marks_.push_back({record(compute_), kind}); }
  std::uint32_t new_point() {
    record_mark(mark_kind::point);
    return ++points_;
  }
  std::size_t record(cudaStream_t on) {
    try {
      if (used_ == events_.size()) events_.emplace_back(event_use::timing);
      event_ref(events_[used_]).record(on);
    } catch (...) {  // the step may go on
      trace_.spoil();
      throw;
    }
    return used_++;
  }
  [[nodiscard]] std::optional<double> seconds(std::size_t from, std::size_t to) const {
    return seconds_between(events_[from], events_[to]);
  }
  /// Times between points, of the whole step and between those of the offloaded tensors.
  void read_segments() {
    std::vector<double>& all = timed_.whole.segment_s;
    all.clear();
    double segment = 0;
    for (std::size_t i = 1; i < marks_.size(); ++i) {
      if (marks_[i].kind != mark_kind::end_of_wait) segment += seconds(marks_[i - 1].at, marks_[i].at).value_or(0);
      if (marks_[i].kind == mark_kind::point) all.push_back(std::exchange(segment, 0));
    }
    std::vector<double>& windowed = timed_.windowed.segment_s;
    windowed.clear();
    std::size_t done = 0;
    const auto until = [&](std::size_t point) {
      double sum = 0;
      for (; done < point; ++done) sum += all[done];
      windowed.push_back(sum);
    };
    for (const sequence_entry& e : timed_.sequence) {
      if (is_point(e.what)) until(e.point);
    }
    until(all.size());
  }
  void read_copies() {
    for (std::size_t way = 0; way < copies_.size(); ++way) {
      seen_[way].clear();
      std::optional<double> pause_s;  // before the copy, if there was one before
      for (std::size_t i = 0; i < copies_[way].size(); ++i) {
        const copy_marks& c = copies_[way][i];
        const double begin = seconds(marks_.front().at, c.begin).value_or(0);
        if (i != 0) pause_s = seconds(copies_[way][i - 1].end, c.begin);
        seen_[way].push_back(
            {begin, begin + seconds(c.begin, c.end).value_or(0), c.bytes, pause_s.value_or(never) > least_pause_s});
      }
    }
  }

  step_trace trace_;
  std::vector<trace_entry> known_;  // the trace that timed_ tells of
  timed_step timed_;
  std::uint32_t points_ = 0;
  std::vector<event> events_;
  std::size_t used_ = 0;
  std::vector<mark_at> marks_;
  std::array<std::vector<copy_marks>, 2> copies_;
  std::array<std::vector<timed_copy>, 2> seen_;
  std::vector<double> wait_latencies_;
  cudaStream_t compute_ = nullptr;
  std::uint64_t timed_step_ = 0;
  bool timing_ = false;
  bool pending_ = false;
};

}  // namespace hostoffload::inline v0::detail
