#include "search.hpp"

#include "bound.hpp"
#include "estimate.hpp"
#include "moves.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <set>

namespace planner {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr std::size_t few_mixes = 5000;              // are all estimated
constexpr std::size_t most_estimated = 100'000'000;  // tensors, for beginnings
constexpr std::size_t patience = 24;  // evaluations without a gain, after which another beginning is worth more

/// Looks for the best mix of one problem. Every mix is stepped once at most.
class explorer {
public:
  explorer(const problem& p, std::size_t number, const evaluator& step, std::size_t& evaluations_left, answer& result)
      : p_(p),
        number_(number),
        step_(step),
        left_(evaluations_left),
        result_(result),
        estimator_(p),
        prices_(relax(p)),
        units_(units_of(p)),
        few_(count_mixes(p, few_mixes) <= few_mixes),
        budget_(static_cast<double>(p.device_budget)) {
    // Steeper than what a byte is worth, and never flat: a step for as many bytes as there are.
    const double a_step = p.forward_s + p.backward_s;
    device_slope_ = std::max(4 * prices_.device_price, a_step / std::max(1.0, static_cast<double>(p.device_budget)));
    host_slope_ = std::max(4 * prices_.host_price, a_step / std::max(1.0, static_cast<double>(p.host_budget)));
  }

  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  [[nodiscard]] const std::optional<candidate>& best() const noexcept { return best_; }
  /// Work per second of the best; 0: there is none.
  [[nodiscard]] double rate() const noexcept { return best_ ? p_.work / best_->seen.step_s : 0; }

  /// A handful of evaluations: from several beginnings to where the estimate knows nothing better.
  void begin() {
    for (const mix& start : beginnings(prices_)) {
      for (int correction = 0; correction < 6 && left_ > 0; ++correction) {
        if (!look_at(polished(start))) break;
      }
    }
  }

  /// Steps what is near the best, the most promising first, as long as that helps and `evaluations` last. Where all
  /// mixes are estimated, those that differ from the best in a pair of tensors take turns with all: of these it is
  /// known best how far the estimates are wrong.
  void improve(std::size_t evaluations) {
    from_ = best_;
    climb(left_ - std::min(left_, evaluations), 2 * patience);
  }

  /// The same with all that is left, and from other beginnings too: what fits into less memory than there is, the most
  /// promising first. So it is found where the best has no better neighbour, but is not the best.
  void widen() {
    improve(left_);
    // What is learned from the first beginnings gives others.
    for (int round = 0; !few_ && round < 3; ++round) climb_from_less();
  }

  /// Fewer ranges at next to no cost: where a range can have the choice of one beside it, it gets it.
  void simplify() {
    if (!best_) return;
    const double most_s = best_->seen.step_s * (1 + 1e-4);
    for (std::size_t name = 0; name < p_.names.size(); ++name) {
      for (bool again = true; again && left_ > 0;) again = merge_one(name, most_s);
    }
  }

private:
  [[nodiscard]] std::array<mix, 4> beginnings(const relaxation& prices) const {
    return {at_prices(p_, prices), uniform(p_, ho::choice::save), uniform(p_, ho::choice::offload),
            uniform(p_, ho::choice::remat)};
  }

  void climb_from_less() {
    std::vector<std::pair<double, mix>> starts;
    std::set<std::vector<ho::choice>> known = seen_;
    const std::size_t last_estimate = estimated_ + most_estimated / p_.bytes.size();
    problem tighter = p_;
    for (const double share : {1.0,  0.99, 0.98, 0.97, 0.96, 0.95, 0.94, 0.93, 0.92, 0.91, 0.9,
                               0.89, 0.88, 0.87, 0.86, 0.84, 0.82, 0.8,  0.77, 0.74, 0.7}) {
      budget_ = share * static_cast<double>(p_.device_budget);
      tighter.device_budget = static_cast<std::size_t>(budget_);
      for (const mix& start : beginnings(relax(tighter))) {
        if (left_ == 0 || done() || estimated_ > last_estimate) break;
        const mix m = tidied(p_, polished(start));
        if (known.insert(m.choices()).second) starts.emplace_back(0, m);
      }
    }
    budget_ = static_cast<double>(p_.device_budget);
    for (auto& [expected, m] : starts) expected = cost(m);
    std::stable_sort(starts.begin(), starts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [expected, m] : starts) {
      if (left_ == 0 || done()) return;
      from_.reset();
      if (look_at(m) && from_) climb(0, patience);
    }
  }

  /// From from_, which is moved to what is better, until `end` evaluations are left.
  void climb(std::size_t end, std::size_t most_without_gain) {
    std::size_t without_gain = 0;
    bool in_pairs = false;
    for (bool again = true; again;) {
      again = left_ > end && look_at(polished(from_ ? from_->placed : at_prices(p_, prices_))) && better_;
      in_pairs = few_ && best_ && !in_pairs;
      std::size_t looked = 0;
      for (const auto& [cost, m] : promising(in_pairs)) {
        if (left_ <= end || done() || (!few_ && best_ && without_gain >= most_without_gain)) return;
        if (!look_at(m)) continue;
        without_gain = better_ ? 0 : without_gain + 1;
        again = better_ || (few_ && ++looked == 8);  // what was learned changes the order of the others
        if (again) break;
      }
      again |= in_pairs;
    }
  }

  bool merge_one(std::size_t name, double most_s) {
    const std::vector<layer_choice> ranges = best_->placed.ranges(name);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      for (const std::size_t beside : {i - 1, i + 1}) {
        if (beside >= ranges.size()) continue;  // i - 1 of 0 is too
        mix next = best_->placed;
        next.set(name, {ranges[i].first, ranges[i].last, ranges[beside].chosen});
        look_at(next);
        const auto c = std::find_if(known_.begin(), known_.end(),
                                    [wanted = tidied(p_, next)](const candidate& k) { return k.placed == wanted; });
        if (c == known_.end() || !c->seen.fits || c->seen.step_s > most_s) continue;
        best_ = *c;
        return true;
      }
    }
    return false;
  }

  /// Nothing can be better.
  [[nodiscard]] bool done() const { return best_ && best_->seen.step_s <= prices_.step_s * (1 + 1e-9); }

  /// Others are expected to differ from from_ as the estimates do.
  [[nodiscard]] double cost(const mix& m) const {
    ++estimated_;
    estimate e = estimator_.of(m);
    e.step_s += step_offset_;
    e.device_bytes += device_offset_;
    return cost(e);
  }
  [[nodiscard]] double cost(const estimate& e) const {
    return e.step_s + slope_ * device_slope_ * std::max(0.0, e.device_bytes - budget_) +
           slope_ * host_slope_ * std::max(0.0, e.host_bytes - static_cast<double>(p_.host_budget));
  }

  /// Steps it, unless it has been. better_: it is from_ now.
  bool look_at(const mix& any) {
    const mix m = tidied(p_, any);
    if (left_ == 0 || !seen_.insert(m.choices()).second) return false;
    --left_;
    candidate c{number_, m, step_(number_, m)};
    estimator_.learn(m, c.seen);
    if (c.seen.step_s > 0) known_.push_back(c);
    better_ = c.seen.fits && (!from_ || c.seen.step_s < from_->seen.step_s);
    if (!c.seen.fits) slope_ = std::min(2 * slope_, 64.0);
    if (better_) from_ = c;
    if (better_ && (!best_ || c.seen.step_s < best_->seen.step_s)) best_ = c;
    if (from_) {
      const estimate there = estimator_.of(from_->placed);
      step_offset_ = from_->seen.step_s - there.step_s;
      device_offset_ = static_cast<double>(from_->seen.device_peak) - there.device_bytes;
    }
    result_.tried.push_back(std::move(c));
    return true;
  }

  [[nodiscard]] mix polished(mix m) const {
    double now = cost(m);
    for (bool better = true; better;) {
      better = false;
      mix least = m;
      for_neighbours(p_, units_, m, [&](const mix& next) {
        const double then = cost(next);
        if (then >= now * (1 - 1e-12)) return false;
        now = then;
        least = next;
        better = true;
        return false;
      });
      m = least;
    }
    return m;
  }

  /// Tensors whose choices differ.
  [[nodiscard]] static std::size_t difference(const mix& a, const mix& b) {
    std::size_t different = 0;
    for (std::size_t i = 0; i < a.choices().size(); ++i) {
      if (a.choices()[i] != b.choices()[i]) ++different;
    }
    return different;
  }

  /// Corrected by the difference that was seen where the mix is most alike: the less, the more tensors differ.
  [[nodiscard]] estimate beside_known(const mix& m) const {
    estimate e = estimator_.of(m);
    const candidate* nearest = nullptr;
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (const candidate& c : known_) {
      const std::size_t different = difference(m, c.placed);
      if (different < least) {
        least = different;
        nearest = &c;
      }
    }
    if (nearest == nullptr || least == 0) return e;
    const estimate there = estimator_.of(nearest->placed);
    const double weight = 1 / static_cast<double>(least);
    e.step_s += weight * (nearest->seen.step_s - there.step_s);
    e.device_bytes += weight * (static_cast<double>(nearest->seen.device_peak) - there.device_bytes);
    return e;
  }

  /// Mixes not stepped yet, by expected cost: all where there are few, or those within a pair of tensors of the best;
  /// else the neighbours of from_.
  [[nodiscard]] std::vector<std::pair<double, mix>> promising(bool in_pairs) const {
    std::vector<std::pair<double, mix>> some;
    const auto add = [&](const mix& m) {
      const mix tidy = tidied(p_, m);
      if (in_pairs && difference(tidy, best_->placed) > 2) return;
      if (!seen_.contains(tidy.choices())) some.emplace_back(few_ ? cost(beside_known(tidy)) : cost(tidy), tidy);
    };
    if (few_) {
      for_all_mixes(p_, add);
    } else {
      for_neighbours(p_, units_, from_ ? from_->placed : at_prices(p_, prices_), [&](const mix& m) {
        add(m);
        return false;
      });
    }
    std::stable_sort(some.begin(), some.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return few_ || !from_ ? some : alternating(some);
  }

  /// Every other one is of those that would be faster than from_: whether they fit is seldom foreseen to the byte.
  [[nodiscard]] std::vector<std::pair<double, mix>> alternating(const std::vector<std::pair<double, mix>>& some) const {
    std::vector<std::pair<double, mix>> faster, others, all;
    for (const auto& s : some) {
      (estimator_.of(s.second).step_s + step_offset_ < from_->seen.step_s ? faster : others).push_back(s);
    }
    for (std::size_t i = 0; i < std::max(faster.size(), others.size()); ++i) {
      if (i < faster.size()) all.push_back(faster[i]);
      if (i < others.size()) all.push_back(others[i]);
    }
    return all;
  }

  const problem& p_;
  std::size_t number_;
  const evaluator& step_;
  std::size_t& left_;
  answer& result_;
  estimator estimator_;
  relaxation prices_;
  std::vector<std::vector<std::size_t>> units_;
  bool few_;  // mixes: all are estimated
  double device_slope_ = 0, host_slope_ = 0;
  double slope_ = 1;
  double step_offset_ = 0, device_offset_ = 0;
  std::vector<candidate> known_;
  std::set<std::vector<ho::choice>> seen_;
  std::optional<candidate> best_, from_;  // from_: whose neighbours are looked at
  double budget_ = 0;                     // bytes of the device that estimates keep to
  mutable std::size_t estimated_ = 0;
  bool better_ = false;
};

std::string gib(double bytes) {
  std::string text = std::to_string(bytes / (1024.0 * 1024 * 1024));
  return text.substr(0, text.find('.') + 3) + " GiB";
}

/// Why no mix at all can fit; empty: one might.
std::string beyond_reach(const problem& p) {
  if (p.device_beside > p.device_budget) {
    return gib(static_cast<double>(p.device_beside - p.device_budget)) +
           " of device memory are missing for what the step needs beside its tensors, " +
           gib(static_cast<double>(p.device_beside));
  }
  if (p.device_left() < 0) {
    return gib(-p.device_left()) + " of device memory are missing for the tensors that one kernel needs, " +
           gib(static_cast<double>(p.leased));
  }
  double saved = 0;
  double kept = 0;
  for (std::size_t name = 0; name < p.names.size(); ++name) {
    const permitted_choices& may = p.names[name].may;
    for (std::size_t layer = 0; !may.remat && layer < p.layers; ++layer) {
      if (!p.alive({name, layer})) continue;
      kept += static_cast<double>(p.bytes_of({name, layer}));
      if (!may.offload) saved += static_cast<double>(p.bytes_of({name, layer}));
    }
  }
  const double device = p.device_left();
  const auto host = static_cast<double>(p.host_budget);
  if (saved > device) {
    return gib(saved - device) + " of device memory are missing for the tensors that may only be saved, " + gib(saved);
  }
  if (kept > device + host) {
    return gib(kept - device - host) +
           " of device or host memory are missing for the tensors that may not be computed again, " + gib(kept);
  }
  return {};
}

/// Of the problem that needs least.
std::string what_is_missing(const std::vector<problem>& problems, const answer& a) {
  const auto least = std::min_element(problems.begin(), problems.end(), [](const problem& x, const problem& y) {
    return x.device_beside < y.device_beside;
  });
  std::string why = beyond_reach(*least);
  if (!why.empty()) return why;
  double device = infinite;
  double host = 0;
  for (const candidate& c : a.tried) {
    const problem& of = problems[c.problem];
    const double more = std::max(0.0, static_cast<double>(c.seen.device_peak) - static_cast<double>(of.device_budget));
    const double on_host = std::max(0.0, static_cast<double>(c.seen.host_bytes) - static_cast<double>(of.host_budget));
    if (c.seen.device_peak == 0 || more + on_host >= device + host) continue;
    device = more;
    host = on_host;
  }
  if (device == infinite) return "no mix that was tried runs";
  std::string text;
  if (device > 0) text = gib(device) + " of device memory";
  if (host > 0) text += (text.empty() ? "" : " and ") + gib(host) + " of host memory";
  return text + " are missing at least, of what was tried";
}

}  // namespace

answer search(const std::vector<problem>& problems, const evaluator& step, const search_options& options) {
  answer a;
  std::vector<std::size_t> order;
  for (const problem& p : problems) {
    order.push_back(a.least_steps.size());
    a.least_steps.push_back(bound_step(p));
    a.most_rate = std::max(a.most_rate, p.work / a.least_steps.back());
  }
  const auto most_rate = [&](std::size_t n) { return problems[n].work / a.least_steps[n]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return most_rate(x) > most_rate(y); });

  const std::size_t to_simplify = options.evaluations / 8;
  std::size_t left = options.evaluations - to_simplify;
  double best = 0;
  std::vector<std::unique_ptr<explorer>> explorers;
  for (const std::size_t n : order) {
    if (a.least_steps[n] == infinite || most_rate(n) <= best) continue;
    explorers.push_back(std::make_unique<explorer>(problems[n], n, step, left, a));
    explorers.back()->begin();
    best = std::max(best, explorers.back()->rate());
  }
  std::stable_sort(explorers.begin(), explorers.end(),
                   [](const auto& x, const auto& y) { return x->rate() > y->rate(); });
  // Half of what is left to each that can still win, the best first, and the rest to the best again.
  for (const auto& e : explorers) {
    if (most_rate(e->number()) <= best && e->rate() < best) continue;
    e->improve((left + 1) / 2);
    best = std::max(best, e->rate());
  }
  for (const auto& e : explorers) {
    if (e->rate() == best) e->widen();
  }
  for (const auto& e : explorers) best = std::max(best, e->rate());
  left += to_simplify;
  for (const auto& e : explorers) {
    if (!e->best() || e->rate() != best) continue;
    e->simplify();
    a.best = e->best();
    break;
  }
  if (!a.best) a.missing = what_is_missing(problems, a);
  return a;
}

}  // namespace planner
