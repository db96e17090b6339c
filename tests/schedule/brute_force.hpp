#pragma once
// Every schedule of a tiny step: every choice of what is kept and in which gap the rest is put away, every order of
// copies out and of copies in, every delay of each segment in whole seconds. With times and sizes that are whole, some
// best schedule has whole times.

#include "tiny.hpp"
#include "workload.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace brute_force {

class search {
public:
  explicit search(const schedules::workload& w)
      : w_(w), starts_(schedules::segment_starts(w)), gaps_(schedules::longest_gaps(w)) {}

  /// The least window of a step of compute + `slack` seconds, in bytes.
  double least_window(std::size_t slack) {
    best_window_ = std::numeric_limits<double>::infinity();
    each_delay(slack, [&](const std::vector<double>& d) {
      each_choice([&](const std::vector<std::size_t>& moved) {
        each_order(moved, d, [&](double window) { best_window_ = std::min(best_window_, window); });
      });
      return false;
    });
    return best_window_;
  }

  /// The least delay of a step that copies every tensor, in any window; none up to `most`: nothing.
  std::optional<std::size_t> least_delay_with_all_moved(std::size_t most) {
    std::vector<std::size_t> all(w_.tensors.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    for (std::size_t slack = 0; slack <= most; ++slack) {
      bool possible = false;
      each_delay(slack, [&](const std::vector<double>& d) {
        each_order(all, d, [&](double) { possible = true; });
        return possible;
      });
      if (possible) return slack;
    }
    return std::nullopt;
  }

private:
  /// Delays never fall; the last is `slack` at most. `visit` returns true to stop.
  void each_delay(std::size_t slack, const std::function<bool(const std::vector<double>&)>& visit) {
    std::vector<double> d(w_.segments.size(), 0);
    const std::function<bool(std::size_t, std::size_t)> choose = [&](std::size_t segment, std::size_t least) {
      if (segment == d.size()) return visit(d);
      for (std::size_t x = least; x <= slack; ++x) {
        d[segment] = static_cast<double>(x);
        if (choose(segment + 1, x)) return true;
      }
      return false;
    };
    choose(0, 0);
  }

  /// Each tensor stays, or is put away in one of its gaps.
  void each_choice(const std::function<void(const std::vector<std::size_t>&)>& visit) {
    std::vector<std::size_t> moved;
    const std::function<void(std::size_t)> choose = [&](std::size_t i) {
      if (i == w_.tensors.size()) return visit(moved);
      choose(i + 1);
      moved.push_back(i);
      for (const schedules::gap& g : schedules::gaps_of(w_.tensors[i])) {
        gaps_[i] = g;
        choose(i + 1);
      }
      moved.pop_back();
    };
    choose(0);
    gaps_ = schedules::longest_gaps(w_);
  }

  /// Copies out as early and copies in as late as their order allows: for that order nothing is better.
  void each_order(const std::vector<std::size_t>& moved, const std::vector<double>& d,
                  const std::function<void(double)>& visit) {
    std::vector<std::size_t> out = moved;
    do {
      std::vector<double> left(w_.tensors.size(), 0);
      double free_at = 0;
      for (const std::size_t i : out) {
        const std::size_t after = gaps_[i].after;
        // Stowed behind the last access before the gap: an earlier copy frees nothing earlier.
        free_at = std::max(free_at, starts_[made_end(i)] + d[w_.tensors[i].made_in]) + bytes(i) / w_.link.out;
        left[i] = std::max(free_at, starts_[after + 1] + d[after]);
      }
      std::vector<std::size_t> in = moved;
      do {
        std::vector<double> arrives(w_.tensors.size(), 0);
        double next = std::numeric_limits<double>::infinity();
        bool possible = true;
        for (std::size_t k = in.size(); k-- > 0 && possible;) {
          const std::size_t i = in[k];
          next = std::min(next, starts_[gaps_[i].before] + d[gaps_[i].before]) - bytes(i) / w_.link.in;
          arrives[i] = next;
          possible = next >= left[i];
        }
        if (possible) visit(window(moved, d, left, arrives));
      } while (std::next_permutation(in.begin(), in.end()));
    } while (std::next_permutation(out.begin(), out.end()));
  }

  double window(const std::vector<std::size_t>& moved, const std::vector<double>& d, const std::vector<double>& left,
                const std::vector<double>& arrives) const {
    std::vector<std::pair<double, double>> changes;
    for (std::size_t i = 0; i < w_.tensors.size(); ++i) {
      const schedules::tensor& t = w_.tensors[i];
      changes.emplace_back(starts_[t.made_in] + d[t.made_in], bytes(i));
      changes.emplace_back(starts_[t.used_in.back() + 1] + d[t.used_in.back()], -bytes(i));
      if (std::find(moved.begin(), moved.end(), i) == moved.end()) continue;
      changes.emplace_back(left[i], -bytes(i));
      changes.emplace_back(arrives[i], bytes(i));
    }
    std::sort(changes.begin(), changes.end());
    double sum = 0, most = 0;
    for (const auto& c : changes) most = std::max(most, sum += c.second);
    return most;
  }

  [[nodiscard]] double bytes(std::size_t i) const { return static_cast<double>(w_.tensors[i].bytes); }
  [[nodiscard]] std::size_t made_end(std::size_t i) const { return w_.tensors[i].made_in + 1; }

  const schedules::workload& w_;
  std::vector<double> starts_;
  std::vector<schedules::gap> gaps_;
  double best_window_ = 0;
};

}  // namespace brute_force
