#pragma once
// A recorded step, checked and indexed for planning.

#include <hostoffload/errors.hpp>
#include <hostoffload/memory/slot_size.hpp>
#include <hostoffload/schedule/record_checks.hpp>
#include <hostoffload/schedule/recorded_step.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

using step_point = std::uint32_t;

/// One offloaded life: when its memory is needed, and the longest gap between two of its uses.
struct planned_life {
  std::uint32_t life = 0;  // index into recorded_step::lives
  std::size_t bytes = 0;
  std::size_t slot_bytes = 0;
  step_point begin = 0;
  step_point made = 0;       // its values are there
  step_point gap_begin = 0;  // the end of the last use before the gap
  step_point gap_end = 0;    // the begin of the first use behind it
  step_point end = 0;
  bool has_gap = false;  // it is used again at all, after some time
};

class prepared_step {
public:
  /// Throws usage_error, which says what is wrong with the record and where.
  explicit prepared_step(const recorded_step& s)
      : step_(&s), segment_s_(s.segment_s), at_(s.segment_s.size() + 1, 0.0) {
    check_link(s.out, "out");
    check_link(s.in, "in");
    if (const problem_text wrong = wait_problem(s.wait_latency_s)) throw usage_error("recorded step: a wait " + *wrong);
    for (std::size_t i = 0; i < s.segment_s.size(); ++i) {
      if (const problem_text wrong = segment_problem(s.segment_s[i]))
        throw usage_error("recorded step: segment " + std::to_string(i) + " " + *wrong);
    }
    set_times();
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < s.lives.size(); ++i) {
      add(static_cast<std::uint32_t>(i));
      bytes += s.lives[i].bytes;
      if (const problem_text wrong = sum_problem(bytes)) throw usage_error("recorded step: " + *wrong);
    }
    index();
  }

  [[nodiscard]] const recorded_step& recorded() const noexcept { return *step_; }
  [[nodiscard]] const std::vector<planned_life>& lives() const noexcept { return lives_; }
  [[nodiscard]] step_point last_point() const noexcept { return static_cast<step_point>(at_.size() - 1); }
  /// Seconds of a copy that has its direction, and the link, for itself.
  [[nodiscard]] double out_s(const planned_life& l) const noexcept { return alone(step_->out, l); }
  [[nodiscard]] double in_s(const planned_life& l) const noexcept { return alone(step_->in, l); }
  /// Seconds of the segment behind a point, above 0.
  [[nodiscard]] double segment_s(step_point p) const noexcept { return segment_s_[p]; }
  /// Seconds of compute before a point.
  [[nodiscard]] double at(step_point p) const noexcept { return at_[p]; }
  [[nodiscard]] double compute_s() const noexcept { return at_.back(); }
  /// The last point that lies no later than `seconds` of compute.
  [[nodiscard]] step_point last_before(double seconds) const noexcept {
    const auto behind = std::upper_bound(at_.begin(), at_.end(), seconds);
    return behind == at_.begin() ? 0 : static_cast<step_point>(behind - at_.begin() - 1);
  }

  /// What happens to a life at a point. In this order at each.
  enum class happening : std::uint8_t { made, gap_begins, ends, begins, gap_ends };
  struct event {
    happening what = happening::made;
    std::uint32_t life = 0;  // index into lives()
  };
  [[nodiscard]] const event* events_begin(step_point p) const noexcept { return events_.data() + first_event_[p]; }
  [[nodiscard]] const event* events_end(step_point p) const noexcept { return events_.data() + first_event_[p + 1]; }

private:
  static double alone(const link_direction& d, const planned_life& l) noexcept {
    return d.latency_s + static_cast<double>(l.bytes) / d.rate;
  }

  /// No two points have the same time, so that what lies between two points with nothing to do between them is not
  /// taken for over before it began: a segment has at least a part of the step that no sum of times loses.
  void set_times() {
    const double least = std::max(1e-12 * std::accumulate(segment_s_.begin(), segment_s_.end(), 0.0), 1e-15);
    for (std::size_t i = 0; i < segment_s_.size(); ++i) {
      segment_s_[i] = std::max(segment_s_[i], least);
      at_[i + 1] = at_[i] + segment_s_[i];
    }
  }

  static void check_link(const link_direction& d, const std::string& which) {
    if (const problem_text wrong = link_problem(d)) throw usage_error("recorded step: link " + which + " " + *wrong);
  }

  void add(std::uint32_t life) {
    const recorded_life& r = step_->lives[life];
    if (const problem_text wrong = life_problem(r, last_point()))
      throw usage_error("recorded step: life " + std::to_string(life) + " (" + title(r) + ") " + *wrong);
    if (r.placed != choice::offload) return;
    planned_life p{.life = life,
                   .bytes = r.bytes,
                   .slot_bytes = slot_size(r.bytes),
                   .begin = r.uses.front().begin,
                   .made = r.uses.front().end,
                   .end = r.uses.back().end};
    double longest = -1;
    for (std::size_t u = 1; u < r.uses.size(); ++u) {
      const double gap = at_[r.uses[u].begin] - at_[r.uses[u - 1].end];
      if (gap <= longest || r.uses[u].begin == r.uses[u - 1].end) continue;
      longest = gap;
      p.gap_begin = r.uses[u - 1].end;
      p.gap_end = r.uses[u].begin;
      p.has_gap = true;
    }
    lives_.push_back(p);
  }

  void index() {
    std::vector<std::pair<step_point, event>> all;
    const auto count = static_cast<std::uint32_t>(lives_.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      const planned_life& l = lives_[i];
      all.push_back({l.begin, {happening::begins, i}});
      all.push_back({l.made, {happening::made, i}});
      all.push_back({l.end, {happening::ends, i}});
      if (!l.has_gap) continue;
      all.push_back({l.gap_begin, {happening::gap_begins, i}});
      all.push_back({l.gap_end, {happening::gap_ends, i}});
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::pair{a.first, a.second.what} < std::pair{b.first, b.second.what};
    });
    first_event_.assign(at_.size() + 1, 0);
    events_.reserve(all.size());
    for (const auto& [where, what] : all) {
      ++first_event_[where + 1];
      events_.push_back(what);
    }
    for (std::size_t p = 1; p < first_event_.size(); ++p) first_event_[p] += first_event_[p - 1];
  }

  const recorded_step* step_;
  std::vector<double> segment_s_;
  std::vector<double> at_;
  std::vector<planned_life> lives_;
  std::vector<event> events_;
  std::vector<std::size_t> first_event_;
};

}  // namespace hostoffload::inline v0::detail
