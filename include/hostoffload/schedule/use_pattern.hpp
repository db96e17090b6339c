#pragma once
// When a tensor is used, learned from its last life: it is dropped only in the longest gap between two of its uses,
// which is the time between forward and backward.

#include <cstdint>

namespace hostoffload::inline v0::detail {

class use_pattern {
public:
  /// A use begins: the first lease after none; `now` counts all such beginnings and ends of the step.
  void begins(std::uint64_t now) noexcept {
    if (uses_ != 0 && now - last_ > longest_) {
      longest_ = now - last_;
      gap_ = uses_;
    }
    ++uses_;
  }
  void ends(std::uint64_t now) noexcept { last_ = now; }

  /// A life ends: what was seen is what is expected of the next one. A life with fewer uses than known that nobody
  /// ended by a last use was forward only, or cut short: nothing is learned from it.
  void finish(bool by_last_use) noexcept {
    if (by_last_use || uses_ >= expected_uses_) {
      expected_gap_ = gap_;
      expected_uses_ = uses_;
    }
    forget();
  }
  /// Begins again; nothing is learned.
  void forget() noexcept {
    uses_ = 0;
    gap_ = 0;
    longest_ = 0;
  }

  /// Whether the gap that begins now is the longest, or may be: nothing is known yet, or more uses than expected came.
  [[nodiscard]] bool in_longest_gap() const noexcept { return expected_gap_ == 0 || uses_ == expected_gap_; }
  /// Whether a life has told when the longest gap is.
  [[nodiscard]] bool known() const noexcept { return expected_gap_ != 0; }
  /// So many uses come before the longest gap; 0: not known.
  [[nodiscard]] unsigned gap_behind() const noexcept { return expected_gap_; }
  /// Whether the longest gap lies behind.
  [[nodiscard]] bool past_longest_gap() const noexcept { return expected_gap_ != 0 && uses_ > expected_gap_; }

  /// What is expected of the next life.
  template <class Print>
  void print(Print& to) const {
    to.add(expected_gap_);
    to.add(expected_uses_);
  }

private:
  std::uint64_t last_ = 0;
  std::uint64_t longest_ = 0;
  unsigned uses_ = 0;
  unsigned gap_ = 0;  // it began after this many uses
  unsigned expected_gap_ = 0;
  unsigned expected_uses_ = 0;
};

}  // namespace hostoffload::inline v0::detail
