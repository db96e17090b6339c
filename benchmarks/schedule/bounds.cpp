// Lower bounds by relaxation.
//
// Let d(k) be the delay of segment k against a compute stream that never waits; d never falls, and the step takes
// compute + d(last). Look at a moment x within segment k. Of the tensors whose gap holds x some are wholly on the host;
// H is the sum of their bytes, and the window is at least L(k) - H, L being what is alive in k. For times s <= x <= s',
//   those made at s or later have been copied out since s:            at most out * (x - s) bytes,
//   those whose gap ends at s' or before are copied in until then:    at most in * (s' - x) bytes,
//   the others were made before s and have a gap that ends behind s': at most G(s, s') bytes,
// the real times being later by the delays. So for every x, s (the end of a segment a), s' (the start of a segment b)
//   L(k) - window <= G + out * (x - s + d(k) - d(a)) + in * (s' - x + d(b) - d(k)).
// With s = x or s' = x this is a difference constraint on d, and with both it becomes one when out and in are replaced
// by the larger: d(later) >= d(earlier) + (c - window) / rate. With s = x or s' = x the bytes that are moved are whole
// tensors, of a known set: what is needed is rounded up. Where all but the n largest of the set are too few bytes, one
// of these is moved, and at least the smallest of them is. The least d(last) for a window is the longest path, and the
// least window for a step is found by bisection, since paths get shorter as windows grow. Leaving constraints out keeps
// the result a lower bound: s and s' are taken from the nearest ends and starts, and fewer of those further away. A
// tensor that could not have been copied in the time since it was made, or until its gap ends, is in no such set. Where
// no segment is delayed (the bound is compute) the first form holds as it stands.

#include "bounds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace schedules {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Tensors of which some are moved, whole.
struct movable {
  double bytes = 0;  // of all
  std::array<double, 4> largest{};

  void add(double size) noexcept {
    bytes += size;
    for (double& l : largest) {
      if (size > l) std::swap(size, l);
    }
  }
  /// At least so many bytes are moved where `needed` are needed.
  [[nodiscard]] double moved(double needed) const noexcept {
    if (needed <= 0) return 0;
    if (needed > bytes) return infinite;
    double rest = bytes;
    for (const double size : largest) {
      rest -= size;
      if (needed > rest) return std::max(needed, size);
    }
    return needed;
  }
};

/// d(to) >= d(from) + (needed - window - undelayed) / rate; from `some`, whole tensors that are as many bytes as
/// needed.
struct constraint {
  std::size_t from = 0, to = 0;
  double needed = 0;
  double undelayed = 0;  // that are moved without a delay
  double rate = 0;
  std::optional<movable> some{};

  [[nodiscard]] double delay(double window) const noexcept {
    return ((some ? some->moved(needed - window) : needed - window) - undelayed) / rate;
  }
};

/// An instant at which the window is looked at, and the segment whose delay it has.
struct moment {
  double at = 0;
  std::size_t segment = 0;
};

struct open_gap {  // holds the moment looked at
  double made = 0, ends = 0;
  double bytes = 0;                     // 0: cannot be on the host
  std::size_t made_in = 0, before = 0;  // segments
};

using tensor_gap = std::pair<std::size_t, std::size_t>;  // a tensor, and the segment before which its gap ends

class relaxation {
public:
  /// Nobody waits longer than `slack` seconds in all.
  relaxation(const workload& w, double slack);

  [[nodiscard]] double largest_access() const noexcept { return access_; }
  [[nodiscard]] double all_alive() const noexcept { return alive_; }
  /// Without delays: the least window.
  [[nodiscard]] double window_without_delay() const noexcept { return undelayed_; }
  /// The least delay in a window, in seconds.
  [[nodiscard]] double delay(double window) const;

private:
  static constexpr std::size_t nearest = 24;
  static constexpr std::size_t further = 8;

  void look(const moment& x, double alive, const std::vector<open_gap>& gaps);
  [[nodiscard]] static std::vector<std::pair<double, std::size_t>> chosen(
      std::vector<std::pair<double, std::size_t>> all);
  void add(const constraint& c);
  [[nodiscard]] static std::vector<movable> by_row(const std::vector<std::pair<double, std::size_t>>& rows,
                                                   const std::vector<open_gap>& gaps, bool out);

  const workload& w_;
  double slack_ = 0;
  double access_ = 0;
  double alive_ = 0;
  double undelayed_ = 0;
  std::vector<constraint> constraints_;
};

relaxation::relaxation(const workload& w, double slack)
    : w_(w), slack_(slack), access_(static_cast<double>(schedules::largest_access(w))), undelayed_(access_) {
  const std::vector<double> starts = segment_starts(w);
  const std::size_t n = w.segments.size();
  std::vector<double> change(n + 1, 0);
  std::vector<std::vector<tensor_gap>> begin(n + 1), end(n + 1);
  for (std::size_t i = 0; i < w.tensors.size(); ++i) {
    const tensor& t = w.tensors[i];
    change[t.made_in] += static_cast<double>(t.bytes);
    change[t.used_in.back() + 1] -= static_cast<double>(t.bytes);
    for (const gap& g : gaps_of(t)) {
      if (g.before == g.after + 1) continue;
      begin[g.after + 1].emplace_back(i, g.before);
      end[g.before].emplace_back(i, g.before);
    }
  }
  std::vector<tensor_gap> in_gap;
  std::vector<open_gap> open;
  double alive = 0;
  for (std::size_t k = 0; k < n; ++k) {
    alive += change[k];
    alive_ = std::max(alive_, alive);
    for (const tensor_gap& g : end[k]) std::erase(in_gap, g);
    in_gap.insert(in_gap.end(), begin[k].begin(), begin[k].end());
    for (const moment& x : {moment{starts[k], k}, moment{starts[k + 1], k}}) {
      open.clear();
      for (const auto& [i, before] : in_gap) {
        const std::size_t made = w.tensors[i].made_in;
        open_gap r{starts[made + 1], starts[before], static_cast<double>(w.tensors[i].bytes), made, before};
        const bool in_time =
            r.bytes <= w.link.out * (x.at - r.made + slack_) && r.bytes <= w.link.in * (r.ends - x.at + slack_);
        if (!in_time) r.bytes = 0;
        open.push_back(r);
      }
      look(x, alive, open);
    }
  }
  std::sort(constraints_.begin(), constraints_.end(),
            [](const constraint& a, const constraint& b) { return a.to != b.to ? a.to < b.to : a.from < b.from; });
}

/// The nearest, then every so many of the rest; given and returned with the nearest first.
std::vector<std::pair<double, std::size_t>> relaxation::chosen(std::vector<std::pair<double, std::size_t>> all) {
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.size() <= nearest + further) return all;
  std::vector<std::pair<double, std::size_t>> some(all.begin(), all.begin() + nearest);
  const std::size_t rest = all.size() - nearest;
  for (std::size_t i = 1; i <= further; ++i) some.push_back(all[nearest + rest * i / further - 1]);
  return some;
}

void relaxation::add(const constraint& c) {
  if (c.delay(access_) > 0) constraints_.push_back(c);
}

/// For each s (out), those made at s or later; for each s' (in), those whose gap ends at s' or before.
std::vector<movable> relaxation::by_row(const std::vector<std::pair<double, std::size_t>>& rows,
                                        const std::vector<open_gap>& gaps, bool out) {
  std::vector<movable> all(rows.size());
  std::vector<std::pair<double, double>> moments;  // and bytes
  for (const open_gap& r : gaps) moments.emplace_back(out ? -r.made : r.ends, r.bytes);
  std::sort(moments.begin(), moments.end());
  movable some;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double at = out ? -rows[i].first : rows[i].first;
    for (; next < moments.size() && moments[next].first <= at; ++next) some.add(moments[next].second);
    all[i] = some;
  }
  return all;
}

void relaxation::look(const moment& x, double alive, const std::vector<open_gap>& gaps) {
  std::vector<std::pair<double, std::size_t>> before, behind;  // ends and starts of accesses, with their segments
  for (const open_gap& r : gaps) {
    before.emplace_back(r.made, r.made_in);
    behind.emplace_back(r.ends, r.before);
  }
  std::sort(before.begin(), before.end(), std::greater<>());
  std::sort(behind.begin(), behind.end());
  before = chosen(std::move(before));
  behind = chosen(std::move(behind));

  // covers[i][j]: bytes made before s whose gap ends behind s', for the i-th s and the j-th s'; 0: x itself.
  const std::size_t rows = before.size() + 1, columns = behind.size() + 1;
  std::vector<double> covers(rows * columns, 0);
  for (const open_gap& r : gaps) {
    // It counts for all s later than its making, which come first, and all s' before its gap's end.
    const auto i = static_cast<std::size_t>(
        std::partition_point(before.begin(), before.end(), [&](const auto& s) { return s.first > r.made; }) -
        before.begin());
    const auto j = static_cast<std::size_t>(
        std::partition_point(behind.begin(), behind.end(), [&](const auto& s) { return s.first < r.ends; }) -
        behind.begin());
    covers[i * columns + j] += r.bytes;
  }
  for (std::size_t i = rows; i-- > 0;) {
    for (std::size_t j = columns; j-- > 0;) {
      double& here = covers[i * columns + j];
      if (i + 1 < rows) here += covers[(i + 1) * columns + j];
      if (j + 1 < columns) here += covers[i * columns + j + 1];
      if (i + 1 < rows && j + 1 < columns) here -= covers[(i + 1) * columns + j + 1];
    }
  }

  const std::vector<movable> left = by_row(before, gaps, true), returned = by_row(behind, gaps, false);
  const double widest = std::max(w_.link.out, w_.link.in);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      const double out = i == 0 ? 0 : w_.link.out * (x.at - before[i - 1].first);
      const double in = j == 0 ? 0 : w_.link.in * (behind[j - 1].first - x.at);
      const double needed = alive - covers[i * columns + j];
      undelayed_ = std::max(undelayed_, needed - out - in);
      if (i == 0 && j == 0) {
        access_ = std::max(access_, needed);  // whatever the delays
      } else if (i == 0) {
        add({x.segment, behind[j - 1].second, needed, in, w_.link.in, returned[j - 1]});
      } else if (j == 0) {
        add({before[i - 1].second, x.segment, needed, out, w_.link.out, left[i - 1]});
      } else {
        add({before[i - 1].second, behind[j - 1].second, needed, out + in, widest, {}});
      }
    }
  }
}

double relaxation::delay(double window) const {
  if (window < access_) return infinite;
  std::vector<double> d(w_.segments.size(), 0);
  std::size_t done = 0;  // segments whose delay has been carried over from the one before
  for (const constraint& c : constraints_) {
    for (; done < c.to; ++done) d[done + 1] = std::max(d[done + 1], d[done]);
    d[c.to] = std::max(d[c.to], d[c.from] + c.delay(window));
  }
  return *std::max_element(d.begin(), d.end());
}

}  // namespace

double step_bound::step_s() const noexcept { return std::max({compute_s, out_s, in_s}); }

step_bound bound_step(const workload& w) {
  const std::vector<double> starts = segment_starts(w);
  step_bound b;
  b.compute_s = starts.back();
  if (w.tensors.empty()) return b;
  double first_made = infinite;
  double last_arrival = 0;
  for (const tensor& t : w.tensors) {
    first_made = std::min(first_made, starts[t.made_in + 1]);
    last_arrival = std::max(last_arrival, starts[longest_gap(t, starts).before]);
  }
  const double bytes = total_bytes(w);
  b.out_s = first_made + bytes / w.link.out;
  b.in_s = bytes / w.link.in + (b.compute_s - last_arrival);
  return b;
}

double least_step(const workload& w, double window_bytes) {
  const double compute_s = segment_starts(w).back();
  return compute_s + relaxation(w, infinite).delay(window_bytes);
}

double least_window(const workload& w, double step_s) {
  const double slack = step_s - segment_starts(w).back();
  const relaxation r(w, std::max(slack, 0.0));
  if (slack <= 0) return r.window_without_delay();
  double low = r.largest_access();
  if (r.delay(low) <= slack) return low;
  double high = std::max(low, r.all_alive());  // where everything is kept nothing is delayed
  while (high - low > 256) {
    const double middle = low + (high - low) / 2;
    (r.delay(middle) <= slack ? high : low) = middle;
  }
  return low;
}

}  // namespace schedules
