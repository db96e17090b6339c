#pragma once
// The uses of the offloaded tensors of a step, in order: what a plan is made for, and what a step that follows it is
// compared with.

#include <hostoffload/schedule/recorded_step.hpp>
#include <hostoffload/schedule/step_trace.hpp>
#include <hostoffload/schedule/tensor_record.hpp>

#include <cstdint>
#include <map>
#include <string>
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
  std::uint32_t point = 0;  // of the whole step's
  friend bool operator==(const sequence_entry& a, const sequence_entry& b) noexcept {
    return a.tensor == b.tensor && a.what == b.what;
  }
};

/// Calls visit(entry, life, point) for each: lives are numbered in the order of their making, points, counting only
/// those of the sequence, from 1.
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

[[nodiscard]] inline std::vector<sequence_entry> sequence_of(const std::vector<trace_entry>& trace) {
  std::vector<sequence_entry> sequence;
  for (const trace_entry& e : trace) {
    if (e.tensor == nullptr || !e.tensor->in_window() || e.what == trace_event::awaits) continue;
    const bool begins = e.what == trace_event::begins || e.what == trace_event::writes;
    sequence.push_back({e.tensor,
                        begins ? use_event::begins : (e.what == trace_event::over ? use_event::over : use_event::ends),
                        e.point});
  }
  return sequence;
}

[[nodiscard]] inline std::vector<recorded_life> lives_of(const std::vector<sequence_entry>& sequence) {
  std::vector<recorded_life> lives;
  each_use(sequence, [&](const sequence_entry& e, std::uint32_t life, std::uint32_t point) {
    if (life == lives.size()) {
      lives.push_back({.name = std::string(e.tensor->name),
                       .layer = e.tensor->position.index,
                       .bytes = e.tensor->bytes,
                       .placed = e.tensor->placed});
    }
    if (e.what == use_event::begins) lives[life].uses.push_back({point, point});
    if (e.what == use_event::ends) lives[life].uses.back().end = point;
  });
  return lives;
}

}  // namespace hostoffload::inline v0::detail
