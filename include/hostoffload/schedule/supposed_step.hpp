#pragma once
// What a timed step would be if some of its offloaded tensors were dropped in their longest gap and made again: the
// same work, and each define function once more, where one of its tensors is first needed behind that gap. What is made
// again stays until its last use, so a chain of definitions costs each of them once.

#include <hostoffload/memory/slot_size.hpp>
#include <hostoffload/schedule/recorded_step.hpp>
#include <hostoffload/schedule/step_trace.hpp>
#include <hostoffload/schedule/tensor_record.hpp>
#include <hostoffload/schedule/use_sequence.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

using maker_set = std::set<const maker*>;

class supposed_step {
public:
  /// `trace` of the step that `whole` tells of, in which nothing of `dropped` was made again. Both outlive this.
  supposed_step(const std::vector<trace_entry>& trace, const recorded_step& whole, const maker_set& dropped)
      : trace_(trace), dropped_(dropped), before_(whole.segment_s.size() + 1, 0.0) {
    for (std::size_t i = 0; i < whole.segment_s.size(); ++i) before_[i + 1] = before_[i] + whole.segment_s[i];
    windowed_.out = whole.out;
    windowed_.in = whole.in;
    find_blocks();
    for (std::size_t i = 0; i < trace_.size(); ++i) pass(i);
    pass_time(point_, static_cast<std::uint32_t>(whole.segment_s.size()));
    windowed_.segment_s.push_back(since_);
    windowed_.lives = lives_of(sequence_);
  }

  /// The offloaded tensors alone, as plans are made for.
  [[nodiscard]] const recorded_step& windowed() const noexcept { return windowed_; }
  /// The most bytes of slots that are leased, being made, or hold the only values of what is made again.
  [[nodiscard]] std::size_t least_window() const noexcept { return least_window_; }
  /// Those that lack an input when they are to run again, or of whose tensors one is there still, or over: in such a
  /// step they would run for that input alone, or for values that are thrown away. They should not be dropped.
  [[nodiscard]] const maker_set& unfit() const noexcept { return unfit_; }
  /// Seconds of one run, without what had to be made first for it.
  [[nodiscard]] double run_s(const maker& m) const {
    const auto found = first_run_.find(&m);
    if (found == first_run_.end()) return 0;
    double all = 0;
    std::uint32_t from = trace_[found->second].point;
    for (std::size_t i = found->second + 1;; ++i) {
      all += before_[trace_[i].point] - before_[from];
      if (trace_[i].what == trace_event::making) i = end_of_[i];
      from = trace_[i].point;
      if (i == end_of_[found->second]) return all;
    }
  }

private:
  struct course {
    bool alive = false;
    bool here = false;
    bool leased = false;
    bool counted = false;
    unsigned uses = 0;
  };

  void find_blocks() {
    end_of_.assign(trace_.size(), 0);
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      if (trace_[i].what == trace_event::making) open.push_back(i);
      if (trace_[i].what != trace_event::made) continue;
      end_of_[open.back()] = i;
      open.pop_back();
    }
  }

  [[nodiscard]] bool is_dropped(const tensor_record& t) const {
    return t.made_by != nullptr && dropped_.contains(t.made_by.get());
  }
  /// A life that ends drops nothing, also where tensors have come to be used otherwise since.
  [[nodiscard]] bool is_over_at(std::size_t i, const tensor_record& t) const noexcept {
    return i < trace_.size() && trace_[i].what == trace_event::over && trace_[i].tensor == &t;
  }
  void pass_time(std::uint32_t from, std::uint32_t to) noexcept { since_ += before_[to] - before_[from]; }

  void pass(std::size_t i) {
    const trace_entry& e = trace_[i];
    pass_time(std::exchange(point_, e.point), e.point);
    switch (e.what) {
      case trace_event::making:
        if (!e.flag) first_run_[e.by] = i;
        break;
      case trace_event::writes:
        if (!e.flag) begins(*e.tensor, false);
        break;
      case trace_event::awaits:
        make_if_dropped(*e.tensor);
        break;
      case trace_event::begins:
        make_if_dropped(*e.tensor);
        begins(*e.tensor, true);
        break;
      case trace_event::written:
      case trace_event::ends:
        if (!e.flag) ends(*e.tensor, e.what == trace_event::ends && !is_over_at(i + 1, *e.tensor));
        break;
      case trace_event::over:
        tell(*e.tensor, use_event::over);
        courses_[e.tensor].alive = false;
        count(*e.tensor);
        break;
      case trace_event::made:
      case trace_event::dropped:
        break;
    }
  }

  void begins(tensor_record& t, bool is_lease) {
    course& c = courses_[&t];
    if (!c.alive) c = course{.alive = true, .counted = c.counted};
    c.here = true;
    c.leased = true;
    if (is_lease) ++c.uses;
    tell(t, use_event::begins);
    count(t);
  }
  void ends(tensor_record& t, bool is_lease) {
    course& c = courses_[&t];
    c.leased = false;
    tell(t, use_event::ends);
    const bool goes = is_dropped(t) || t.placed == choice::remat;
    if (goes && is_lease && t.pattern.known() && c.uses == t.pattern.gap_behind()) {
      c.here = false;
      if (is_dropped(t)) tell(t, use_event::dropped);
    }
    count(t);
  }

  void make_if_dropped(tensor_record& t) {
    const course& c = courses_[&t];
    if (c.alive && !c.here && is_dropped(t)) make_again(*t.made_by);
  }

  /// What its first run did, once more, but for what that had to make first.
  void make_again(const maker& m) {
    const auto found = first_run_.find(&m);
    const bool fits = found != first_run_.end() && std::all_of(m.members.begin(), m.members.end(), [&](auto* t) {
                        return courses_[t].alive && !courses_[t].here;
                      });
    if (!fits) unfit_.insert(&m);
    for (tensor_record* t : m.members) begins(*t, false);
    if (found != first_run_.end()) run_again(m, found->second);
    for (tensor_record* t : m.members) ends(*t, false);
  }
  void run_again(const maker& m, std::size_t begin) {
    std::vector<tensor_record*> leased;
    std::uint32_t from = trace_[begin].point;
    for (std::size_t i = begin + 1;; ++i) {
      const trace_entry& e = trace_[i];
      pass_time(from, e.point);
      if (e.what == trace_event::making) i = end_of_[i];
      from = trace_[i].point;
      if (i == end_of_[begin]) break;
      if (e.what == trace_event::awaits) {
        make_if_dropped(*e.tensor);
        const course& c = courses_[e.tensor];
        if (!c.alive || !c.here) unfit_.insert(&m);
        if (c.leased || !c.alive) continue;
        begins(*e.tensor, true);
        leased.push_back(e.tensor);
      } else if (e.what == trace_event::ends && std::erase(leased, e.tensor) != 0) {
        ends(*e.tensor, false);
      }
    }
    for (tensor_record* t : leased) ends(*t, false);
  }

  void tell(tensor_record& t, use_event what) {
    if (!t.in_window()) return;
    sequence_.push_back({&t, what, 0});
    if (is_point(what)) windowed_.segment_s.push_back(std::exchange(since_, 0));
  }
  void count(const tensor_record& t) {
    if (!t.in_window()) return;
    course& c = courses_[&t];
    const bool counts = c.leased || (c.alive && c.here && is_dropped(t));
    if (counts == c.counted) return;
    c.counted = counts;
    in_use_ += counts ? slot_size(t.bytes) : 0;
    in_use_ -= counts ? 0 : slot_size(t.bytes);
    least_window_ = std::max(least_window_, in_use_);
  }

  const std::vector<trace_entry>& trace_;
  const maker_set& dropped_;
  std::vector<double> before_;       // seconds of all segments before a point
  std::vector<std::size_t> end_of_;  // of a define function's run, by the entry that begins it
  std::map<const maker*, std::size_t> first_run_;
  std::map<const tensor_record*, course> courses_;
  std::vector<sequence_entry> sequence_;
  recorded_step windowed_;
  double since_ = 0;  // the last point of the sequence
  std::uint32_t point_ = 0;
  std::size_t in_use_ = 0;
  std::size_t least_window_ = 0;
  maker_set unfit_;
};

}  // namespace hostoffload::inline v0::detail
