#pragma once
// A plan as a list of what is to come, and how far a step has come in it: no decision and no look-up is left.

#include <hostoffload/schedule/step_plan.hpp>
#include <hostoffload/schedule/step_timeline.hpp>
#include <hostoffload/schedule/use_sequence.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

struct planned_copy {
  std::uint32_t phase = 0;
  link_way way = link_way::out;
  tensor_record* tensor = nullptr;
  std::size_t offset = 0;  // of what comes back
};

class plan_cursor {
public:
  plan_cursor() = default;
  plan_cursor(const std::vector<sequence_entry>& sequence, const step_plan& plan) {
    std::vector<tensor_record*> tensors(plan.lives.size(), nullptr);
    each_use(sequence, [&](const sequence_entry& e, std::uint32_t life, std::uint32_t point) {
      const bool first = tensors[life] == nullptr;
      tensors[life] = e.tensor;
      entries_.push_back({e, point, plan.lives[life].offset, first});
    });
    std::size_t in = 0;
    const auto add_ins_before = [&](std::uint32_t phase) {
      for (; in < plan.in_order.size() && plan.lives[plan.in_order[in]].in_at < phase; ++in) {
        const std::uint32_t life = plan.in_order[in];
        copies_.push_back({plan.lives[life].in_at, link_way::in, tensors[life], plan.lives[life].offset_back});
      }
    };
    for (const std::uint32_t life : plan.out_order) {
      add_ins_before(plan.lives[life].out_at);
      copies_.push_back({plan.lives[life].out_at, link_way::out, tensors[life], 0});
    }
    add_ins_before(~std::uint32_t{0});
  }

  void begin() noexcept { entry_ = copy_ = point_ = 0; }
  [[nodiscard]] bool at_end() const noexcept { return entry_ == entries_.size() && copy_ == copies_.size(); }

  /// Whether this is what comes next; then it has come.
  [[nodiscard]] bool pass(const tensor_record& r, use_event what) noexcept {
    if (entry_ == entries_.size() || entries_[entry_].what.tensor != &r || entries_[entry_].what.what != what)
      return false;
    point_ = entries_[entry_++].point;
    return true;
  }
  /// The offset at which a life that begins next is planned; nothing when something else is.
  [[nodiscard]] const std::size_t* place_of(const tensor_record& r) const noexcept {
    if (entry_ == entries_.size()) return nullptr;
    const entry& e = entries_[entry_];
    return e.first && e.what.tensor == &r && e.what.what == use_event::begins ? &e.offset : nullptr;
  }
  /// The next copy, if it is due: before the next use begins, or now that the last one did or has ended.
  [[nodiscard]] const planned_copy* due(bool before_use) const noexcept {
    const std::uint32_t phase = before_use ? 2 * (point_ + 1) : 2 * point_ + 1;
    return copy_ < copies_.size() && copies_[copy_].phase <= phase ? &copies_[copy_] : nullptr;
  }
  void issued() noexcept { ++copy_; }
  [[nodiscard]] std::uint32_t point() const noexcept { return point_; }

private:
  struct entry {
    sequence_entry what{};
    std::uint32_t point = 0;
    std::size_t offset = 0;
    bool first = false;  // of its life
  };
  std::vector<entry> entries_;
  std::vector<planned_copy> copies_;
  std::size_t entry_ = 0;
  std::size_t copy_ = 0;
  std::uint32_t point_ = 0;
};

}  // namespace hostoffload::inline v0::detail
