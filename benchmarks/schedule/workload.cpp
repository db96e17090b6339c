#include "workload.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace schedules {

void check(const workload& w) {
  const auto fail = [&](const std::string& what) { throw std::invalid_argument("workload " + w.name + ": " + what); };
  const auto positive = [](double x) { return x > 0 && std::isfinite(x); };
  if (w.segments.empty()) fail("no segments");
  if (!positive(w.link.out) || !positive(w.link.in) || !positive(w.link.both)) fail("link rates must be positive");
  for (std::size_t i = 0; i < w.segments.size(); ++i) {
    if (!positive(w.segments[i].seconds)) fail("segment " + std::to_string(i) + " takes no time");
  }
  for (const tensor& t : w.tensors) {
    const std::string who =
        "tensor " + t.name + " of layer " + std::to_string(t.layer) + ", micro batch " + std::to_string(t.micro_batch);
    if (t.bytes == 0 || t.bytes % 256 != 0) fail(who + ": its bytes are no multiple of 256");
    if (t.used_in.empty()) fail(who + " is never used");
    std::size_t before = t.made_in;
    for (const std::size_t use : t.used_in) {
      if (use <= before) fail(who + ": uses must be later than what comes before them");
      before = use;
    }
    if (before >= w.segments.size()) fail(who + " is used in a segment that is none");
  }
}

std::vector<double> segment_starts(const workload& w) {
  std::vector<double> starts(w.segments.size() + 1, 0);
  for (std::size_t i = 0; i < w.segments.size(); ++i) starts[i + 1] = starts[i] + w.segments[i].seconds;
  return starts;
}

gap longest_gap(const tensor& t, const std::vector<double>& starts) {
  const std::vector<gap> gaps = gaps_of(t);
  const auto length = [&starts](const gap& g) { return starts[g.before] - starts[g.after + 1]; };
  return *std::max_element(gaps.begin(), gaps.end(), [&](const gap& a, const gap& b) { return length(a) < length(b); });
}

std::vector<gap> gaps_of(const tensor& t) {
  std::vector<gap> gaps{{t.made_in, t.used_in.front()}};
  for (std::size_t i = 1; i < t.used_in.size(); ++i) gaps.push_back({t.used_in[i - 1], t.used_in[i]});
  return gaps;
}

gap gap_between_passes(const workload& w, const tensor& t) {
  const std::vector<gap> gaps = gaps_of(t);
  const auto found =
      std::find_if(gaps.begin(), gaps.end(), [&w](const gap& g) { return w.segments[g.before].of == pass::backward; });
  return found == gaps.end() ? gaps.back() : *found;
}

std::vector<gap> longest_gaps(const workload& w) {
  const std::vector<double> starts = segment_starts(w);
  std::vector<gap> gaps;
  gaps.reserve(w.tensors.size());
  for (const tensor& t : w.tensors) gaps.push_back(longest_gap(t, starts));
  return gaps;
}

accesses::accesses(const workload& w) : made(w.segments.size()), used(w.segments.size()) {
  for (std::size_t i = 0; i < w.tensors.size(); ++i) {
    made[w.tensors[i].made_in].push_back(i);
    for (const std::size_t use : w.tensors[i].used_in) used[use].push_back(i);
  }
}

double total_bytes(const workload& w) {
  return std::accumulate(w.tensors.begin(), w.tensors.end(), 0.0,
                         [](double sum, const tensor& t) { return sum + static_cast<double>(t.bytes); });
}

std::size_t largest_access(const workload& w) {
  std::vector<std::size_t> bytes(w.segments.size(), 0);
  for (const tensor& t : w.tensors) {
    bytes[t.made_in] += t.bytes;
    for (const std::size_t use : t.used_in) bytes[use] += t.bytes;
  }
  return *std::max_element(bytes.begin(), bytes.end());
}

std::string_view to_string(pass p) noexcept {
  switch (p) {
    case pass::forward:
      return "forward";
    case pass::backward:
      return "backward";
    case pass::idle:
      return "idle";
  }
  return "?";
}

}  // namespace schedules
