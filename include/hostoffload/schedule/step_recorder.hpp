#pragma once
// What happens to the offloaded tensors of a step, in order, and when: the events of a step that is timed are read some
// steps later. Nothing here waits.

#include <hostoffload/cuda/event.hpp>
#include <hostoffload/schedule/link_fit.hpp>
#include <hostoffload/schedule/recorded_step.hpp>
#include <hostoffload/schedule/step_timeline.hpp>
#include <hostoffload/schedule/tensor_record.hpp>

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

enum class use_event : std::uint8_t {
  begins,  // a use, or the making
  ends,
  over,  // the life, by a last use
};

struct sequence_entry {
  tensor_record* tensor = nullptr;
  use_event what = use_event::begins;
  friend bool operator==(const sequence_entry&, const sequence_entry&) = default;
};

/// Calls visit(entry, life, point) for each: lives are numbered in the order of their making, points from 1.
template <class Visitor>
void each_use(const std::vector<sequence_entry>& sequence, Visitor&& visit) {
  std::map<const tensor_record*, std::uint32_t> alive;
  std::uint32_t lives = 0;
  std::uint32_t points = 0;
  for (const sequence_entry& e : sequence) {
    const auto found = alive.try_emplace(e.tensor, lives);
    if (found.second) ++lives;
    const std::uint32_t life = found.first->second;
    if (e.what == use_event::over) alive.erase(e.tensor);
    visit(e, life, e.what == use_event::over ? points : ++points);
  }
}

class step_recorder {
public:
  /// Times are taken where nothing taken before is still to be read.
  void begin(std::uint64_t step, bool timed, cudaStream_t compute) {
    sequence_.clear();
    compute_ = compute;
    timing_ = timed && !pending_;
    if (!timing_) return;
    marks_.clear();
    for (auto& c : copies_) c.clear();
    used_ = 0;
    timed_step_ = step;
    mark(mark_kind::point);
  }

  void note(tensor_record& r, use_event what) {
    sequence_.push_back({&r, what});
    if (timing_ && what != use_event::over) mark(mark_kind::point);
  }
  void wait_begins() {
    if (timing_) mark(mark_kind::wait);
  }
  void wait_ends() {
    if (timing_) mark(mark_kind::end_of_wait);
  }
  /// Around a copy on its stream.
  void copy_begins(link_way w, std::size_t bytes, cudaStream_t on) {
    if (timing_) copies_[static_cast<std::size_t>(w)].push_back({record(on), 0, bytes});
  }
  void copy_ends(link_way w, cudaStream_t on) {
    if (timing_) copies_[static_cast<std::size_t>(w)].back().end = record(on);
  }

  /// The step is over. `whole`: times of it may be learned from.
  void end(bool whole) {
    if (!timing_) return;
    mark(mark_kind::point);
    timing_ = false;
    if (!whole) return;
    pending_ = true;
    timed_sequence_ = sequence_;
  }
  void abandon() noexcept { timing_ = false; }
  /// Tensors come or go: what was seen of them is void.
  void forget() noexcept {
    pending_ = timing_ = false;
    sequence_.clear();
  }

  [[nodiscard]] const std::vector<sequence_entry>& sequence() const noexcept { return sequence_; }
  [[nodiscard]] bool pending() const noexcept { return pending_; }
  /// Of the step that read() tells of.
  [[nodiscard]] const std::vector<sequence_entry>& timed_sequence() const noexcept { return timed_sequence_; }

  /// The step that was timed, if it lies two steps back and the device has completed it.
  [[nodiscard]] std::optional<recorded_step> read(std::uint64_t step) {
    if (!pending_ || step < timed_step_ + 2) return std::nullopt;
    if (!seconds(marks_.front().at, marks_.back().at)) return std::nullopt;
    pending_ = false;
    recorded_step recorded;
    double segment = 0;
    for (std::size_t i = 1; i < marks_.size(); ++i) {
      if (marks_[i].kind != mark_kind::end_of_wait) segment += seconds(marks_[i - 1].at, marks_[i].at).value_or(0);
      if (marks_[i].kind != mark_kind::point) continue;
      recorded.segment_s.push_back(segment);
      segment = 0;
    }
    each_use(timed_sequence_, [&](const sequence_entry& e, std::uint32_t life, std::uint32_t point) {
      if (life == recorded.lives.size()) {
        recorded.lives.push_back({.name = std::string(e.tensor->name),
                                  .layer = e.tensor->position.index,
                                  .bytes = e.tensor->bytes,
                                  .placed = e.tensor->placed});
      }
      if (e.what == use_event::begins) recorded.lives[life].uses.push_back({point, point});
      if (e.what == use_event::ends) recorded.lives[life].uses.back().end = point;
    });
    const std::vector<timed_copy> out = times(link_way::out);
    const std::vector<timed_copy> in = times(link_way::in);
    const auto fit_out = fit_link(out, in);
    const auto fit_in = fit_link(in, out);
    if (!fit_out && !fit_in) return std::nullopt;
    recorded.out = fit_out ? *fit_out : *fit_in;
    recorded.in = fit_in ? *fit_in : *fit_out;
    return recorded;
  }

private:
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

  void mark(mark_kind kind) { marks_.push_back({record(compute_), kind}); }
  std::size_t record(cudaStream_t on) {
    if (used_ == events_.size()) events_.emplace_back(event_use::timing);
    event_ref(events_[used_]).record(on);
    return used_++;
  }
  [[nodiscard]] std::optional<double> seconds(std::size_t from, std::size_t to) const {
    float milliseconds = 0;
    const cudaError_t code = cudaEventElapsedTime(&milliseconds, events_[from].get(), events_[to].get());
    if (code == cudaErrorNotReady) {
      ignore(code);
      return std::nullopt;
    }
    check(code, "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1e3;
  }
  [[nodiscard]] std::vector<timed_copy> times(link_way w) const {
    std::vector<timed_copy> all;
    for (const copy_marks& c : copies_[static_cast<std::size_t>(w)]) {
      const double begin = seconds(marks_.front().at, c.begin).value_or(0);
      all.push_back({begin, begin + seconds(c.begin, c.end).value_or(0), c.bytes});
    }
    return all;
  }

  std::vector<sequence_entry> sequence_;
  std::vector<sequence_entry> timed_sequence_;
  std::vector<event> events_;
  std::size_t used_ = 0;
  std::vector<mark_at> marks_;
  std::array<std::vector<copy_marks>, 2> copies_;
  cudaStream_t compute_ = nullptr;
  std::uint64_t timed_step_ = 0;
  bool timing_ = false;
  bool pending_ = false;
};

}  // namespace hostoffload::inline v0::detail
