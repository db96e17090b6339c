// A lower bound by relaxation.
//
// Look at the moment x of the problem. Whatever was placed where, each tensor that is alive then is on the device,
// wholly on the host, or nowhere, and then its definition runs again later. Let s, o and r be these three shares of it
// (one of them is 1, here any fractions that add up to 1), and y that of a definition that runs again; where it makes
// several tensors y is at least the r of each. A tensor that may not be remat has r = 0, one that may not be offloaded
// o = 0; one that may be offloaded can be in the window at x, so it has an s even if it may not be saved. Then
//   sum of bytes * s <= D, the device's budget without what is beside the tensors and what is leased at x,
//   sum of bytes * o <= H, since what is on the host has a place of its own there,
//   the time before x is at least F, that of the compute stream, which in every mix waits as long, and at least lead +
//   (bytes on the host) / to_host:
//     copies out start behind the first tensor's making, one after the other, at no more than that rate;
//   the time behind x is at least B + R, R the sum of y * seconds of the definitions: the compute stream does one
//     thing after the other, and a definition that runs twice costs more than one that runs once;
//   and at least (bytes on the host) / to_device + tail, as they are copied in before the last use.
// The least sum of the two times under these constraints is a linear program. By weak duality each choice of
// multipliers p, q >= 0 (seconds per byte of D and H) and 0 <= a, b <= 1 (of the second form of each time) gives a
// lower bound of it, for which every definition decides alone:
//   (1 - a) F + a lead + (1 - b) B + b tail - p D - q H + sum over definitions of the lesser of
//     sum of bytes * k                          k = min(p, q + a / to_host + b / to_device) where it may be offloaded,
//     (1 - b) seconds + sum of bytes * k of those that may not be remat                                  else k = p.
// The largest of these is found by Shor's ellipsoid method; all it visits are bounds, so its accuracy is no matter.

#include "bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace planner {
namespace {

constexpr std::size_t dimensions = 4;
using vector = std::array<double, dimensions>;
enum multiplier : std::size_t { of_device, of_host, of_out, of_in };

/// Bytes of the tensors that one definition makes, or of one tensor that is never made again.
struct group {
  double seconds = 0;
  bool may_drop = false;
  // By what else they may be; 0 to 1: may not be offloaded, may.
  std::array<double, 2> kept{};     // not remat
  std::array<double, 2> dropped{};  // may be remat
  bool must_drop = false;           // one of them may be remat only
};

class dual {
public:
  explicit dual(const problem& p);

  [[nodiscard]] bool feasible() const noexcept { return feasible_; }
  /// No multiplier of the device or the host is larger at an optimum, but where the budget cannot be kept.
  [[nodiscard]] double largest_price() const noexcept { return largest_price_; }
  /// The bound, and its supergradient.
  [[nodiscard]] double value(const vector& at, vector& slope) const;

private:
  const problem& p_;
  std::vector<group> groups_;
  double device_ = 0, host_ = 0;
  double largest_price_ = 0;
  bool feasible_ = true;
};

dual::dual(const problem& p) : p_(p), device_(p.device_left()), host_(static_cast<double>(p.host_budget)) {
  std::vector<bool> made(p.bytes.size(), false);
  const auto add = [&](group& g, cell c) {
    const permitted_choices& may = p.names[c.name].may;
    const auto bytes = static_cast<double>(p.bytes_of(c));
    if (bytes == 0 || !p.alive(c)) return;
    (may.remat ? g.dropped : g.kept).at(may.offload ? 1 : 0) += bytes;
    g.may_drop = g.may_drop || may.remat;
    g.must_drop = g.must_drop || (!may.save && !may.offload);
  };
  for (const making& m : p.makings) {
    group g;
    g.seconds = m.seconds;
    for (const cell c : m.makes) {
      made[p.at(c)] = true;
      add(g, c);
    }
    groups_.push_back(g);
  }
  for (std::size_t name = 0; name < p.names.size(); ++name) {
    for (std::size_t layer = 0; layer < p.layers; ++layer) {
      if (made[p.at({name, layer})]) continue;
      groups_.emplace_back();
      add(groups_.back(), {name, layer});
    }
  }
  double never_dropped = 0;
  double only_saved = 0;
  for (const group& g : groups_) {
    never_dropped += g.kept[0] + g.kept[1];
    only_saved += g.kept[0];
    const double bytes = g.dropped[0] + g.dropped[1];
    if (bytes > 0) largest_price_ = std::max(largest_price_, g.seconds / bytes);
  }
  feasible_ = only_saved <= device_ && never_dropped <= device_ + host_;
  largest_price_ += 1 / p.to_host + 1 / p.to_device;
}

double dual::value(const vector& at, vector& slope) const {
  const double host_price = at[of_host] + at[of_out] / p_.to_host + at[of_in] / p_.to_device;
  const bool prefers_host = host_price < at[of_device];
  const std::array<double, 2> price{at[of_device], std::min(at[of_device], host_price)};
  double sum = 0;
  double on_device = 0;
  double on_host = 0;
  double again = 0;
  for (const group& g : groups_) {
    const double stay = g.kept[0] * price[0] + g.kept[1] * price[1];
    const double keep = g.dropped[0] * price[0] + g.dropped[1] * price[1];
    const bool drops = g.may_drop && (g.must_drop || (1 - at[of_in]) * g.seconds < keep);
    sum += stay + (drops ? (1 - at[of_in]) * g.seconds : keep);
    if (drops) again += g.seconds;
    const double either = g.kept[1] + (drops ? 0 : g.dropped[1]);
    on_device += g.kept[0] + (drops ? 0 : g.dropped[0]);
    (prefers_host ? on_host : on_device) += either;
  }
  slope = {on_device - device_, on_host - host_, p_.lead_s + on_host / p_.to_host - p_.forward_s,
           p_.tail_s + on_host / p_.to_device - p_.backward_s - again};
  return (1 - at[of_out]) * p_.forward_s + at[of_out] * p_.lead_s + (1 - at[of_in]) * p_.backward_s +
         at[of_in] * p_.tail_s - at[of_device] * device_ - at[of_host] * host_ + sum;
}

}  // namespace

double bound_step(const problem& p) { return relax(p).step_s; }

relaxation relax(const problem& p) {
  check(p);
  const dual d(p);
  if (!d.feasible() || p.device_left() < 0) return {std::numeric_limits<double>::infinity(), 0, 0};

  // In units of the largest multiplier: the unit cube, in an ellipsoid centre + {z : z' shape^-1 z <= 1}.
  const double unit = std::max(d.largest_price(), std::numeric_limits<double>::min());
  constexpr auto n = static_cast<double>(dimensions);
  constexpr int iterations = 2000;
  vector centre;
  centre.fill(0.5);
  std::array<vector, dimensions> shape{};
  for (std::size_t i = 0; i < dimensions; ++i) shape[i][i] = n / 4;
  relaxation best{p.forward_s + p.backward_s, 0, 0};
  for (int iteration = 0; iteration < iterations; ++iteration) {
    vector cut{};  // what lies in this direction of the centre is cut off
    const auto outside = std::find_if(centre.begin(), centre.end(), [](double x) { return x < 0 || x > 1; });
    if (outside != centre.end()) {
      cut.at(static_cast<std::size_t>(outside - centre.begin())) = *outside < 0 ? -1 : 1;
    } else {
      vector slope;
      const vector at{centre[of_device] * unit, centre[of_host] * unit, centre[of_out], centre[of_in]};
      const double bound = d.value(at, slope);
      if (bound > best.step_s) best = {bound, at[of_device], at[of_host]};
      cut = {-slope[of_device] * unit, -slope[of_host] * unit, -slope[of_out], -slope[of_in]};
    }
    vector towards{};
    double length = 0;
    for (std::size_t i = 0; i < dimensions; ++i) {
      for (std::size_t j = 0; j < dimensions; ++j) towards[i] += shape[i][j] * cut[j];
      length += cut[i] * towards[i];
    }
    if (!(length > 0)) break;
    const double root = std::sqrt(length);
    for (std::size_t i = 0; i < dimensions; ++i) {
      centre[i] -= towards[i] / root / (n + 1);
      for (std::size_t j = 0; j < dimensions; ++j) {
        shape[i][j] = n * n / (n * n - 1) * (shape[i][j] - 2 / (n + 1) * towards[i] * towards[j] / length);
      }
    }
  }
  return best;
}

}  // namespace planner
