#pragma once
// What is wished for in a choice of copies: to begin with, and when it is known how a choice went.

#include <hostoffload/schedule/copy_chooser.hpp>
#include <hostoffload/schedule/slab_packing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

/// Which of the tensors that may leave goes first.
enum class out_first : std::uint8_t { used_last, made_first, largest, smallest };

class copy_wishes {
public:
  explicit copy_wishes(const prepared_step& step) : step_(step) {
    for (std::uint32_t i = 0; i < step.lives().size(); ++i) {
      if (step.lives()[i].has_gap) in_order_.push_back(i);
    }
    by_gap_.assign(in_order_.begin(), in_order_.end());
    std::stable_sort(in_order_.begin(), in_order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return step.lives()[a].gap_end < step.lives()[b].gap_end;
    });
    const auto gap = [&](std::uint32_t i) { return step.at(step.lives()[i].gap_end) - step.at(step.lives()[i].made); };
    std::stable_sort(by_gap_.begin(), by_gap_.end(), [&](std::uint32_t a, std::uint32_t b) { return gap(a) < gap(b); });
    by_bytes_ = by_gap_;
    std::stable_sort(by_bytes_.begin(), by_bytes_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return step.lives()[a].bytes > step.lives()[b].bytes; });
    std::map<std::pair<std::string_view, std::size_t>, std::vector<std::uint32_t>> by_name;
    for (const std::uint32_t i : in_order_) {
      const recorded_life& r = step.recorded().lives[step.lives()[i].life];
      by_name[{r.name, r.layer}].push_back(i);
    }
    for (auto& [name, alike] : by_name) alike_.push_back(std::move(alike));
    for (const planned_life& l : step.lives()) all_bytes_ += l.slot_bytes;
  }

  /// Lives with a gap: in the order in which they are used behind it, by its length, and by their bytes.
  [[nodiscard]] const std::vector<std::uint32_t>& in_order() const noexcept { return in_order_; }
  [[nodiscard]] const std::vector<std::uint32_t>& by_gap() const noexcept { return by_gap_; }
  [[nodiscard]] const std::vector<std::uint32_t>& by_bytes() const noexcept { return by_bytes_; }
  /// Those of the same name and layer.
  [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& alike() const noexcept { return alike_; }
  /// Of all slots.
  [[nodiscard]] std::size_t all_bytes() const noexcept { return all_bytes_; }

  /// Those that do not leave: as many as fit into so many bytes at all times, the first in `order` first.
  [[nodiscard]] std::vector<bool> kept(const std::vector<std::uint32_t>& order, std::size_t bytes) const {
    std::vector<bool> all(step_.lives().size(), false);
    std::vector<std::size_t> held(step_.last_point(), 0);
    for (const std::uint32_t i : order) {
      const planned_life& l = step_.lives()[i];
      const auto begin = held.begin() + l.begin;
      const auto end = held.begin() + l.end;
      if (*std::max_element(begin, end) + l.slot_bytes > bytes) continue;
      std::for_each(begin, end, [&](std::size_t& sum) { sum += l.slot_bytes; });
      all[i] = true;
    }
    return all;
  }

  /// Before anything was tried.
  [[nodiscard]] std::vector<life_wish> first(const std::vector<bool>& kept, out_first leaves) const {
    std::vector<life_wish> all(step_.lives().size());
    for (std::size_t i = 0; i < kept.size(); ++i) all[i].keep = kept[i];
    for (std::size_t i = 0; i < all.size(); ++i) {
      const planned_life& l = step_.lives()[i];
      all[i].leaves_before = urgency(l, leaves);
      all[i].in_s = step_.in_s(l);
      all[i].until_back = step_.at(l.end);
      all[i].until = l.has_gap && !all[i].keep ? step_.at(l.gap_begin) + step_.out_s(l) : step_.at(l.end);
    }
    return all;
  }

  /// For slots in these places.
  [[nodiscard]] std::vector<life_wish> in_places(const least_stays& least) const {
    std::vector<life_wish> all = first({}, out_first::used_last);
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      all[i].offset = least[least.of(i)].offset;
      if (step_.lives()[i].has_gap) all[i].offset_back = least[least.of(i) + 1].offset;
    }
    return all;
  }

  /// Backwards over the uses: each copy in ends before its use and before the next one starts.
  void walk_back(std::vector<life_wish>& wishes, const std::vector<bool>& copied) const {
    double next = step_.compute_s();
    for (std::size_t n = in_order_.size(); n-- > 0;) {
      life_wish& w = wishes[in_order_[n]];
      w.latest = std::min(next, step_.at(step_.lives()[in_order_[n]].gap_end) - w.lead_s) - w.in_s;
      w.gate = step_.last_before(std::max(0.0, w.latest));
      if (!w.keep && copied[in_order_[n]]) next = w.latest;
    }
  }

  /// From how a choice went: durations, and when slots are given back.
  static void learn(const std::vector<life_course>& seen, std::vector<life_wish>& wishes, std::vector<bool>& copied) {
    for (std::size_t i = 0; i < wishes.size(); ++i) {
      const life_course& c = seen[i];
      copied[i] = c.copied;
      if (c.copied) wishes[i].in_s = c.in_end - c.in_start;
      wishes[i].until = c.copied ? c.left : c.end;
      wishes[i].until_back = c.end;
    }
  }

  /// The places that slots have when those of a choice, which may be anywhere, are packed.
  void place_as_packed(const std::vector<life_course>& seen, std::vector<life_wish>& wishes) const {
    std::vector<slab_stay> stays;
    for (std::size_t i = 0; i < wishes.size(); ++i) {
      const life_course& c = seen[i];
      const std::size_t bytes = step_.lives()[i].slot_bytes;
      stays.push_back({.begin = c.begin, .end = c.copied ? c.left : c.end, .bytes = bytes});
      if (c.copied) stays.push_back({.begin = c.in_start, .end = c.end, .bytes = bytes});
    }
    slab_packing(stays).pack();
    std::size_t n = 0;
    for (std::size_t i = 0; i < wishes.size(); ++i) {
      wishes[i].offset = stays[n++].offset;
      if (seen[i].copied) wishes[i].offset_back = stays[n++].offset;
    }
  }

private:
  static double urgency(const planned_life& l, out_first first) noexcept {
    switch (first) {
      case out_first::made_first:
        return -static_cast<double>(l.made);
      case out_first::largest:
        return static_cast<double>(l.bytes);
      case out_first::smallest:
        return -static_cast<double>(l.bytes);
      case out_first::used_last:
        break;
    }
    return l.gap_end;
  }

  const prepared_step& step_;
  std::vector<std::uint32_t> in_order_;
  std::vector<std::uint32_t> by_gap_;    // the shortest first
  std::vector<std::uint32_t> by_bytes_;  // the largest first
  std::vector<std::vector<std::uint32_t>> alike_;
  std::size_t all_bytes_ = 0;
};

}  // namespace hostoffload::inline v0::detail
