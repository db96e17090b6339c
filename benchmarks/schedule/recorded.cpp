#include "recorded.hpp"

#include "machine.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace schedules {
namespace {

namespace ho = hostoffload;

/// What one direction carries while both do: the virtual GPU shares their sum evenly, but gives no more than a
/// direction takes by itself.
double while_both(double one, double other, double both) { return std::min(one, std::max(both, 2 * both - other)); }

}  // namespace

ho::recorded_step recorded(const workload& w) {
  ho::recorded_step r;
  for (const tensor& t : w.tensors) {
    ho::recorded_life life;
    life.name = t.name;
    life.layer = t.layer;
    life.bytes = t.bytes;
    r.lives.push_back(std::move(life));
  }
  double since = 0;  // the last point
  const auto point = [&] {
    r.segment_s.push_back(std::exchange(since, 0));
    return static_cast<std::uint32_t>(r.segment_s.size());
  };
  const accesses all(w);
  for (std::size_t s = 0; s < w.segments.size(); ++s) {
    for (const auto* leased : {&all.used[s], &all.made[s]}) {
      for (const std::size_t t : *leased) {
        const std::uint32_t begin = point();
        r.lives[t].uses.push_back({begin, begin});
      }
    }
    since += w.segments[s].seconds;
    for (const auto* leased : {&all.made[s], &all.used[s]}) {
      for (const std::size_t t : *leased) r.lives[t].uses.back().end = point();
    }
  }
  point();
  const vgpu::machine m = machine_for(w);
  const double latency = m.link.queued_latency.value;
  r.wait_latency_s = m.wait_latency.value;
  r.out = {w.link.out, while_both(w.link.out, w.link.in, w.link.both), latency};
  r.in = {w.link.in, while_both(w.link.in, w.link.out, w.link.both), latency};
  return r;
}

}  // namespace schedules
