// Searches on steps that are small enough to step every mix.

#include "small_step.hpp"

#include <planner/bound.hpp>
#include <planner/moves.hpp>
#include <planner/search.hpp>

#include "catch.hpp"

#include <algorithm>
#include <iostream>
#include <optional>
#include <random>
#include <utility>

TEST_CASE("on 50 random steps the answer is at most 1 % behind the best of all mixes, and no mix beats the bound") {
  const std::uint64_t seed = GENERATE(20261129U, 112U);
  std::cout << "seed " << seed << '\n';
  std::mt19937_64 random(seed);
  double worst = 1;
  std::size_t none = 0;
  std::size_t evaluated = 0;
  std::size_t mixes = 0;
  for (int model = 0; model < 50; ++model) {
    CAPTURE(seed, model);
    const small::model m = small::random_model(random, 2187);
    const planner::problem p = small::problem_of(m);
    const double bound = planner::bound_step(p);
    std::optional<double> best;
    planner::for_all_mixes(p, [&](const planner::mix& placed) {
      const planner::evaluation seen = small::step(m, placed);
      ++mixes;
      if (!seen.fits) return;
      if (!best || seen.step_s < *best) best = seen.step_s;
      CHECK(seen.step_s >= bound * (1 - 1e-6));  // milliseconds are read as floats
    });
    const planner::answer found =
        planner::search({p}, [&](std::size_t, const planner::mix& placed) { return small::step(m, placed); });
    CHECK(found.tried.size() <= planner::search_options{}.evaluations);
    evaluated += found.tried.size();
    REQUIRE(found.best.has_value() == best.has_value());
    if (!best) {
      ++none;
      CHECK_FALSE(found.missing.empty());
      continue;
    }
    CHECK(found.missing.empty());
    const planner::evaluation again = small::step(m, found.best->placed);
    CHECK(again.fits);
    CHECK(again.step_s == found.best->seen.step_s);
    CHECK(again.step_s <= 1.01 * *best);
    worst = std::max(worst, again.step_s / *best);
  }
  std::cout << mixes << " mixes of 50 steps, of which the searches stepped " << evaluated << ": at worst "
            << 100 * (worst - 1) << " % behind; " << none << " fit with no mix\n";
  CHECK(none < 25);
}
