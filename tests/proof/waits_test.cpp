// Every event wait that the library issues is needed: the race detector objects when one is dropped, and none is
// implied by what its stream already waited for. The library issues no wait that only paces.

#include "catch.hpp"
#include "program.hpp"
#include "table.hpp"

#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/faults.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace vg = hostoffload::virtual_gpu;

namespace {

constexpr std::uint64_t seeds = 60;

/// Two steps with nothing in between: what the host knew by waiting would imply waits that the library cannot know of.
void run(const proof::shape& s, const std::function<void()>& arm) {
  proof::prepare(s);
  vg::reset(vg::gb200());
  proof::program p(s, false);
  arm();
  p.step(1);
  p.step(2);
}

/// Each scheduler of a program has four streams, created in this order.
std::string name_of(std::uint64_t stream) {
  constexpr std::array<const char*, 4> names{"trainer's", "compute", "copy out", "copy in"};
  return names.at((stream - 1) % 4);
}
std::string role_of(const vg::wait_record& w) { return name_of(w.stream) + " behind " + name_of(w.event_stream); }

struct counts {
  std::size_t waits = 0;
  std::size_t found = 0;
  std::size_t later = 0;
};

}  // namespace

TEST_CASE("no wait is redundant when it is issued", "[waits]") {
  for (std::uint64_t seed = 1; seed <= 4 * seeds; ++seed) {
    const proof::shape s = proof::shape_of(seed);
    std::vector<vg::wait_record> waits;
    proof::prepare(s);
    vg::reset(vg::gb200());
    {
      proof::program p(s, false);
      vg::watch_waits();
      p.step(1);
      p.step(2);
      waits = vg::waits();
    }
    for (const vg::wait_record& w : waits) {
      INFO(to_string(s) << "; call " << w.call << ": " << role_of(w));
      REQUIRE_FALSE(w.implied);
    }
  }
}

TEST_CASE("each dropped wait is found, or a later wait made another path", "[waits]") {
  std::map<std::string, counts> roles;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const proof::shape s = proof::shape_of(seed);
    if (s.layers > 5) continue;  // the same sites, more often
    for (std::uint64_t n = 1;; ++n) {
      vg::wait_record dropped;
      run(s, [n] { vg::ignore_wait(n); });
      for (const vg::wait_record& w : vg::waits()) {
        if (w.ignored) dropped = w;
      }
      if (!dropped.ignored) break;  // there are fewer
      counts& role = roles[role_of(dropped)];
      ++role.waits;
      const bool found = !vg::findings().empty();
      role.found += found ? 1 : 0;
      role.later += !found && dropped.implied_later ? 1 : 0;
      INFO(to_string(s) << "; wait " << n << ": " << role_of(dropped));
      REQUIRE((found || dropped.implied_later));
    }
  }
  std::vector<std::string> rows;
  for (const auto& [role, c] : roles) {
    rows.push_back("| " + role + " | " + std::to_string(c.waits) + " | " + std::to_string(c.found) + " | " +
                   std::to_string(c.later) + " |");
    CHECK(c.found > 0);
  }
  proof::check_table("| role | waits dropped | found | order by a later wait |", rows);
}

TEST_CASE("all waits of one role dropped: found in every program in which one of them alone is found", "[waits]") {
  for (std::uint64_t seed = 1; seed <= 4 * seeds; ++seed) {
    const proof::shape s = proof::shape_of(seed);
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> roles;
    run(s, [] { vg::watch_waits(); });
    for (const vg::wait_record& w : vg::waits()) roles[role_of(w)] = {w.event_stream, w.stream};
    for (const auto& [role, streams] : roles) {
      run(s, [streams = streams] { vg::ignore_waits(streams.first, streams.second); });
      bool by_other_path = true;
      for (const vg::wait_record& w : vg::waits()) by_other_path = by_other_path && (!w.ignored || w.implied_later);
      INFO(to_string(s) << "; " << role);
      CHECK((!vg::findings().empty() || by_other_path));
    }
  }
}
