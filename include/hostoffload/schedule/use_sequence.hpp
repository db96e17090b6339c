#pragma once
// The uses of the offloaded tensors of a step, in order: what a plan is made for, and what a step that follows it is
// compared with.

#include <hostoffload/schedule/recorded_step.hpp>
#include <hostoffload/schedule/step_trace.hpp>
#include <hostoffload/schedule/tensor_record.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace hostoffload::inline v0::detail {

enum class use_event : std::uint8_t {
  begins,  // a use, or the making
  ends,
  over,     // the life, by a last use
  dropped,  // the values, to be made again
};

/// Whether time passes until there: the others go with the end of a use.
[[nodiscard]] constexpr bool is_point(use_event e) noexcept { return e == use_event::begins || e == use_event::ends; }

struct sequence_entry {
  tensor_record* tensor = nullptr;
  use_event what = use_event::begins;
  std::uint32_t point = 0;  // of the whole step's
  friend bool operator==(const sequence_entry& a, const sequence_entry& b) noexcept {
    return a.tensor == b.tensor && a.what == b.what;
  }
};

/// Calls visit(entry, life, point) for each: lives are numbered in the order of their making, points, counting only
/// those of the sequence, from 1. To a plan a tensor that is dropped and made again has two lives.
template <class Visitor>
void each_use(const std::vector<sequence_entry>& sequence, Visitor&& visit) {
  std::map<const tensor_record*, std::uint32_t> alive;
  std::uint32_t lives = 0;
  std::uint32_t points = 0;
  for (const sequence_entry& e : sequence) {
    const auto found = alive.try_emplace(e.tensor, lives);
    if (found.second) ++lives;
    const std::uint32_t life = found.first->second;
    if (!is_point(e.what)) alive.erase(e.tensor);
    visit(e, life, is_point(e.what) ? ++points : points);
  }
}

/// Of those but `awaits`.
[[nodiscard]] constexpr use_event use_event_of(trace_event e) noexcept {
  if (e == trace_event::begins || e == trace_event::writes) return use_event::begins;
  if (e == trace_event::over) return use_event::over;
  return e == trace_event::dropped ? use_event::dropped : use_event::ends;
}

[[nodiscard]] inline std::vector<sequence_entry> sequence_of(const std::vector<trace_entry>& trace) {
  std::vector<sequence_entry> sequence;
  for (const trace_entry& e : trace) {
    if (e.tensor == nullptr || !e.tensor->in_window() || e.what == trace_event::awaits) continue;
    sequence.push_back({e.tensor, use_event_of(e.what), e.point});
  }
  return sequence;
}

/// What is dropped or was made again stays where it is from its making to its last use: it has one long use.
[[nodiscard]] inline std::vector<recorded_life> lives_of(const std::vector<sequence_entry>& sequence) {
  std::vector<recorded_life> lives;
  std::vector<bool> stays;
  std::set<const tensor_record*> dropped;
  each_use(sequence, [&](const sequence_entry& e, std::uint32_t life, std::uint32_t point) {
    if (life == lives.size()) {
      lives.push_back({.name = std::string(e.tensor->name),
                       .layer = e.tensor->position.index,
                       .bytes = e.tensor->bytes,
                       .placed = e.tensor->placed});
      stays.push_back(dropped.contains(e.tensor));
    }
    if (e.what == use_event::begins) lives[life].uses.push_back({point, point});
    if (e.what == use_event::ends) lives[life].uses.back().end = point;
    if (e.what == use_event::over) dropped.erase(e.tensor);
    if (e.what != use_event::dropped) return;
    dropped.insert(e.tensor);
    stays[life] = true;
  });
  for (std::size_t i = 0; i < lives.size(); ++i) {
    std::vector<recorded_use>& uses = lives[i].uses;
    if (stays[i]) uses = {{uses.front().begin, uses.back().end}};
  }
  return lives;
}

}  // namespace hostoffload::inline v0::detail
