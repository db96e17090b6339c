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
  for (const segment& s : w.segments) r.segment_s.push_back(s.seconds);
  for (const tensor& t : w.tensors) {
    ho::recorded_life life;
    life.name = t.name;
    life.layer = t.layer;
    life.bytes = t.bytes;
    const auto use = [&life](std::size_t in) {
      life.uses.push_back({static_cast<std::uint32_t>(in), static_cast<std::uint32_t>(in) + 1});
    };
    use(t.made_in);
    for (const std::size_t in : t.used_in) use(in);
    r.lives.push_back(std::move(life));
  }
  const double latency = machine_for(w).link.queued_latency.value;
  r.out = {w.link.out, while_both(w.link.out, w.link.in, w.link.both), latency};
  r.in = {w.link.in, while_both(w.link.in, w.link.out, w.link.both), latency};
  return r;
}

}  // namespace schedules
