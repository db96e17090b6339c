#pragma once
// A step in virtual time: the compute stream, and one copy at a time in each direction of the link. What runs when is a
// policy's business: the planner decides as it goes, the evaluation follows a plan.

#include <hostoffload/schedule/prepared_step.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace hostoffload::inline v0::detail {

enum class link_way : std::uint8_t { out, in };

inline constexpr double never = std::numeric_limits<double>::infinity();

/// Both directions of the link; each carries one copy at a time, and they slow one another.
class link_pair {
public:
  explicit link_pair(const recorded_step& s) : lanes_{lane{s.out}, lane{s.in}} {}

  [[nodiscard]] bool busy(link_way w) const noexcept { return of(w).busy; }
  void start(link_way w, std::uint32_t life, std::size_t bytes) noexcept {
    lane& l = of(w);
    l.busy = true;
    l.life = life;
    l.latency = l.speed.latency_s + (l.idle ? l.speed.idle_s : 0);
    l.bytes = static_cast<double>(bytes);
  }
  /// Seconds until a copy ends or begins to carry data.
  [[nodiscard]] double next() const noexcept {
    double soonest = never;
    for (const link_way w : {link_way::out, link_way::in}) {
      const lane& l = of(w);
      if (l.busy) soonest = std::min(soonest, l.latency > 0 ? l.latency : l.bytes / rate(w));
    }
    return soonest;
  }
  void advance(double seconds) noexcept {
    const std::array<double, 2> rates{rate(link_way::out), rate(link_way::in)};
    for (std::size_t w = 0; w < 2; ++w) {
      lane& l = lanes_[w];
      if (seconds > 0) l.idle = !l.busy;
      if (!l.busy) continue;
      if (l.latency > 0) {
        l.latency = l.latency <= seconds ? 0 : l.latency - seconds;
      } else {
        l.bytes = l.bytes / rates[w] <= seconds ? 0 : l.bytes - seconds * rates[w];
      }
    }
  }
  /// The life whose copy has ended.
  [[nodiscard]] std::optional<std::uint32_t> take_finished(link_way w) noexcept {
    lane& l = of(w);
    if (!l.busy || l.latency > 0 || l.bytes > 0) return std::nullopt;
    l.busy = false;
    return l.life;
  }

private:
  struct lane {
    link_direction speed{};
    bool busy = false;
    bool idle = true;  // when time last passed
    std::uint32_t life = 0;
    double latency = 0;  // still to pass
    double bytes = 0;    // still to carry
    [[nodiscard]] bool carries() const noexcept { return busy && latency <= 0; }
  };
  [[nodiscard]] lane& of(link_way w) noexcept { return lanes_[static_cast<std::size_t>(w)]; }
  [[nodiscard]] const lane& of(link_way w) const noexcept { return lanes_[static_cast<std::size_t>(w)]; }
  [[nodiscard]] double rate(link_way w) const noexcept {
    const bool both = of(link_way::out).carries() && of(link_way::in).carries();
    return both ? of(w).speed.rate_while_both : of(w).speed.rate;
  }

  std::array<lane, 2> lanes_;
};

/// Runs the step. The policy has
///   bool pass(step_point, double now)              the compute stream may go on past the point; asked until it may
///   double late_s()                           until it does, where it had to wait at the point that it passed last
///   std::optional<uint32_t> pick(link_way, double now)  a copy to start on an idle direction, if any
///   void copied(link_way, uint32_t life, double now)
///   bool unblock()                            everything waits for something else: whether that was changed
/// Seconds until the compute stream has passed the last point; `never` when everything waits for something else.
template <class Policy>
double run_timeline(const prepared_step& step, Policy& policy) {
  link_pair link(step.recorded());
  double now = 0;
  double segment_left = 0;
  step_point next = 0;
  bool running = false;
  while (true) {
    for (bool again = true; again;) {
      again = false;
      if (!running && policy.pass(next, now)) {
        if (next == step.last_point()) return now + policy.late_s();
        running = true;
        again = true;
        segment_left = policy.late_s() + step.segment_s(next++);
      }
      for (const link_way w : {link_way::out, link_way::in}) {
        if (link.busy(w)) continue;
        if (const std::optional<std::uint32_t> life = policy.pick(w, now)) {
          link.start(w, *life, step.lives()[*life].bytes);
          again = true;
        }
      }
    }
    const double passes = std::min(running ? segment_left : never, link.next());
    if (passes == never) {
      if (policy.unblock()) continue;
      return never;
    }
    now += passes;
    segment_left = segment_left <= passes ? 0 : segment_left - passes;
    link.advance(passes);
    for (const link_way w : {link_way::out, link_way::in}) {
      if (const std::optional<std::uint32_t> life = link.take_finished(w)) policy.copied(w, *life, now);
    }
    if (running && segment_left <= 0) running = false;
  }
}

}  // namespace hostoffload::inline v0::detail
