#include "estimate.hpp"

#include <algorithm>
#include <numeric>

namespace planner {

estimator::estimator(const problem& p) : p_(p) {
  std::vector<bool> made(p.bytes.size(), false);
  for (const making& m : p.makings) {
    for (const cell c : m.makes) made[p.at(c)] = true;
  }
  for (std::size_t layer = 0; layer < p.layers; ++layer) {
    for (std::size_t name = 0; name < p.names.size(); ++name) {
      if (!made[p.at({name, layer})] && p.bytes_of({name, layer}) > 0) stages_.push_back({{{name, layer}}});
    }
    for (const making& m : p.makings) {
      if (!m.makes.empty() && m.makes.front().layer == layer) stages_.push_back({m.makes, m.seconds});
    }
  }
  const double all =
      std::accumulate(stages_.begin(), stages_.end(), 0.0, [](double sum, const stage& s) { return sum + s.seconds; });
  for (stage& s : stages_) {
    const double share = all > 0 ? s.seconds / all : 1 / static_cast<double>(stages_.size());
    s.forward_s = share * p.forward_s;
    s.backward_s = share * std::max(0.0, p.backward_s - p.tail_s);
  }
}

estimator::sums estimator::add(const mix& m) const {
  sums s;
  for (std::size_t layer = 0; layer < p_.layers; ++layer) {
    double offloaded = 0;
    double dropped = 0;
    for (std::size_t name = 0; name < p_.names.size(); ++name) {
      const auto bytes = static_cast<double>(p_.bytes_of({name, layer}));
      switch (m.at({name, layer})) {
        case ho::choice::save:
          s.saved += bytes;
          break;
        case ho::choice::remat:
          dropped += bytes;
          break;
        default:
          offloaded += bytes;
      }
    }
    s.offloaded += offloaded;
    s.most_offloaded = std::max(s.most_offloaded, offloaded);
    s.most_dropped = std::max(s.most_dropped, dropped);
  }
  return s;
}

double estimator::window_of(const sums& s) const { return std::max(window_layers_, 1.0) * s.most_offloaded; }
double estimator::passing(const sums& s) const {
  return window_layers_ * s.most_offloaded + dropped_layers_ * s.most_dropped;
}

/// Copies out follow one another, each behind its tensor's making, and making waits for room in the window. What is in
/// it at the turn stays; the rest is copied in, in reverse, as far ahead as there is room.
double estimator::walk(const mix& m, double window) const {
  const auto is = [&](cell c, ho::choice chosen) { return m.at(c) == chosen; };
  double now = 0;
  double out_end = 0;
  double left_to_fetch = 0;
  for (const stage& s : stages_) {
    now += s.forward_s;
    for (const cell c : s.makes) {
      if (!is(c, ho::choice::offload)) continue;
      const auto bytes = static_cast<double>(p_.bytes_of(c));
      left_to_fetch += bytes;
      out_end = std::max(out_end, now) + bytes / p_.to_host;
      now = std::max(now, out_end - window / p_.to_host);
    }
  }
  now = std::max(now, p_.lead_s);
  double kept = window;
  double in_end = 0;
  double room_from = now;  // when what is fetched next had room
  for (std::size_t i = stages_.size(); i-- > 0;) {
    const stage& s = stages_[i];
    double freed = 0;
    bool again = false;
    for (const cell c : s.makes) {
      const auto bytes = static_cast<double>(p_.bytes_of(c));
      again = again || (bytes > 0 && is(c, ho::choice::remat));
      if (!is(c, ho::choice::offload)) continue;
      freed += bytes;
      if (kept >= bytes) {
        kept -= bytes;
        continue;
      }
      in_end = std::max({in_end, room_from, out_end - left_to_fetch / p_.to_host}) + bytes / p_.to_device;
      now = std::max(now, in_end);
    }
    now += s.backward_s + (again ? s.seconds : 0);
    // Room that is given up now serves what comes a window later: by then the link has been free since.
    if (freed > 0) room_from = std::max(room_from, now - window / p_.to_device);
  }
  return now + p_.tail_s;
}

estimate estimator::of(const mix& m) const {
  const sums s = add(m);
  return {time_ratio_ * walk(m, window_of(s)), static_cast<double>(p_.device_beside) + s.saved + passing(s),
          host_ratio_ * s.offloaded};
}

void estimator::learn(const mix& m, const evaluation& seen) {
  const sums s = add(m);
  if (seen.step_s > 0) {
    const double ratio = seen.step_s / walk(m, window_of(s));
    ++learned_;
    time_ratio_ += (ratio - time_ratio_) / static_cast<double>(std::min<std::size_t>(learned_, 4));
  }
  if (seen.host_bytes > 0 && s.offloaded > 0) host_ratio_ = static_cast<double>(seen.host_bytes) / s.offloaded;
  if (seen.device_peak == 0) return;
  const double scale = static_cast<double>(std::max<std::size_t>(p_.device_budget, 1));
  const double offloaded = s.most_offloaded / scale;
  const double dropped = s.most_dropped / scale;
  const double beside =
      (static_cast<double>(seen.device_peak) - static_cast<double>(p_.device_beside) - s.saved) / scale;
  oo_ += offloaded * offloaded;
  od_ += offloaded * dropped;
  dd_ += dropped * dropped;
  ob_ += offloaded * (beside - 2 * offloaded - dropped);
  db_ += dropped * (beside - 2 * offloaded - dropped);
  const double weight = 1e-6;  // of the beginning, against what was stepped
  const double determinant = (oo_ + weight) * (dd_ + weight) - od_ * od_;
  window_layers_ = 2 + ((dd_ + weight) * ob_ - od_ * db_) / determinant;
  dropped_layers_ = 1 + ((oo_ + weight) * db_ - od_ * ob_) / determinant;
}

}  // namespace planner
