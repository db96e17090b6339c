#pragma once
// What happened in a step that is timed, in order, and the record that it makes.

#include <hostoffload/schedule/recorded_step.hpp>
#include <hostoffload/schedule/tensor_record.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

enum class trace_event : std::uint8_t {
  making,   // a define function begins …
  writes,   // … which is to fill this tensor
  awaits,   // it has an input
  written,  // the tensor has values
  made,     // the define function has ended
  begins,   // a use; of a tensor that has no values, by a writable lease
  ends,
  over,     // the life, by a last use
  dropped,  // the values, which lay in the window
};

struct trace_entry {
  trace_event what = trace_event::making;
  bool flag = false;        // of making: again; of writes: for one recomputation alone
  std::uint32_t point = 0;  // the last one before, or its own
  tensor_record* tensor = nullptr;
  const maker* by = nullptr;
  friend bool operator==(const trace_entry&, const trace_entry&) = default;
};

/// Of one step. `inside` is the define function within which the host code runs that asks, null for the trainer's.
/// Makings have to lie within one another: coroutines that take turns inside define functions leave no trace.
class step_trace {
public:
  void clear() noexcept {
    entries_.clear();
    open_.clear();
    is_whole_ = true;
    ended_lives_ = 0;
  }
  void making_begins(const maker& by, const void* inside, bool again, std::uint32_t point) {
    expect(inside);
    open_.push_back(&by);
    entries_.push_back({trace_event::making, again, point, nullptr, &by});
    for (tensor_record* m : by.members) {
      if (m->aside != nullptr) continue;
      if (m->temporary && !has_lived(*m)) spoil();  // a record has no life that this could be of
      entries_.push_back({trace_event::writes, m->temporary, point, m, &by});
    }
  }
  void making_ends(const maker& by, std::uint32_t point) {
    expect(&by);
    for (tensor_record* m : by.members) {
      if (m->aside == nullptr) entries_.push_back({trace_event::written, m->temporary, point, m, &by});
    }
    entries_.push_back({trace_event::made, false, point, nullptr, &by});
    if (!open_.empty()) open_.pop_back();
  }
  void awaits(tensor_record& r, const void* inside, std::uint32_t point) {
    expect(inside);
    if (!open_.empty()) entries_.push_back({trace_event::awaits, false, point, &r, open_.back()});
  }
  void use(tensor_record& r, trace_event what, std::uint32_t point) {
    entries_.push_back({what, false, point, &r, nullptr});
    ended_lives_ += what == trace_event::over ? 1 : 0;
  }
  void spoil() noexcept { is_whole_ = false; }

  /// Whether a record can be made of it. A step in which no life was ended was forward only.
  [[nodiscard]] bool is_good() const noexcept { return is_whole_ && open_.empty() && ended_lives_ != 0; }
  [[nodiscard]] const std::vector<trace_entry>& entries() const noexcept { return entries_; }

private:
  /// In this step, other than for one recomputation alone.
  [[nodiscard]] bool has_lived(const tensor_record& r) const noexcept {
    return std::any_of(entries_.begin(), entries_.end(), [&r](const trace_entry& e) {
      return e.tensor == &r && !e.flag && (e.what == trace_event::writes || e.what == trace_event::begins);
    });
  }
  void expect(const void* inside) noexcept {
    if (inside != (open_.empty() ? nullptr : open_.back())) is_whole_ = false;
  }

  std::vector<trace_entry> entries_;
  std::vector<const maker*> open_;
  bool is_whole_ = true;
  std::size_t ended_lives_ = 0;
};

/// Lives and makings; not the times.
class trace_reader {
public:
  explicit trace_reader(const std::vector<trace_entry>& entries) {
    for (const trace_entry& e : entries) read(e);
  }
  [[nodiscard]] recorded_step& result() noexcept { return step_; }

private:
  struct course {
    std::uint32_t number = 0;
    std::uint32_t life = 0;
    bool alive = false;
  };

  void read(const trace_entry& e) {
    switch (e.what) {
      case trace_event::making:
        open_.push_back(step_.makings.size());
        step_.makings.push_back({.begin = e.point, .end = e.point, .again = e.flag});
        break;
      case trace_event::writes:
        if (!e.flag) begin_use(e);
        step_.makings[open_.back()].makes.push_back(courses_[e.tensor].life);
        break;
      case trace_event::awaits:
        add_input(step_.makings[open_.back()].inputs, {courses_[e.tensor].life, e.point});
        break;
      case trace_event::written:
      case trace_event::ends:
        if (!e.flag) step_.lives[courses_[e.tensor].life].uses.back().end = e.point;
        break;
      case trace_event::made:
        step_.makings[open_.back()].end = e.point;
        open_.pop_back();
        break;
      case trace_event::begins:
        begin_use(e);
        break;
      case trace_event::over:
        courses_[e.tensor].alive = false;
        step_.lives[courses_[e.tensor].life].ended = true;
        break;
      case trace_event::dropped:
        break;
    }
  }
  void begin_use(const trace_entry& e) {
    const auto [found, is_new] = courses_.try_emplace(e.tensor, course{static_cast<std::uint32_t>(courses_.size())});
    course& c = found->second;
    if (!c.alive) {
      c.alive = true;
      c.life = static_cast<std::uint32_t>(step_.lives.size());
      step_.lives.push_back({.name = std::string(e.tensor->name),
                             .layer = e.tensor->position.index,
                             .bytes = e.tensor->bytes,
                             .placed = e.tensor->treated_as(),
                             .tensor = c.number});
    }
    step_.lives[c.life].uses.push_back({e.point, e.point});
  }
  static void add_input(std::vector<recorded_input>& inputs, const recorded_input& i) {
    if (std::find(inputs.begin(), inputs.end(), i) == inputs.end()) inputs.push_back(i);
  }

  recorded_step step_;
  std::vector<std::size_t> open_;
  std::map<const tensor_record*, course> courses_;
};

}  // namespace hostoffload::inline v0::detail
