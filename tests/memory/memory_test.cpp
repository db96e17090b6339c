// Slots and the order of streams, against plain models.

#include "catch.hpp"

#include <hostoffload/cuda/stream.hpp>
#include <hostoffload/memory/slot_cache.hpp>
#include <hostoffload/memory/window_slab.hpp>
#include <hostoffload/schedule/tensor_record.hpp>
#include <hostoffload/virtual_gpu/control.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace ho = hostoffload;
namespace vg = hostoffload::virtual_gpu;
using namespace ho::detail;

namespace {

constexpr std::uint64_t any_rank = ~std::uint64_t{0};

stream_clock point(stream_id s, std::uint64_t number) {
  stream_clock c;
  c.join(s, number);
  return c;
}

/// Which owner has each unit of 256 bytes, and what its next user has to be behind.
struct cell {
  int owner = -1;
  bool kept = false;
  stream_clock behind{};
};

}  // namespace

TEST_CASE("window slab: against a model of every 256 bytes") {
  const unsigned seed = Catch::rngSeed() == 0 ? 4711U : Catch::rngSeed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    constexpr std::size_t units = 64;
    std::vector<std::byte> memory(units * slot_alignment);
    window_slab slab({memory.data(), memory.size()});
    std::array<tensor_record, 200> owners;
    std::array<slot*, 200> slots{};
    std::vector<cell> model(units);
    const auto first_unit = [&](const slot& s) {
      return static_cast<std::size_t>(s.begin - memory.data()) / slot_alignment;
    };
    std::uint64_t clock = 0;
    std::uint64_t rank = 0;
    for (int action = 0; action < 400; ++action) {
      const auto id = static_cast<int>(random() % owners.size());
      slot*& mine = slots.at(static_cast<std::size_t>(id));
      if (mine == nullptr) {
        const std::size_t wanted = 1 + random() % 12;
        mine = slab.take(wanted * slot_alignment, owners.at(static_cast<std::size_t>(id)), any_rank, {}, {},
                         [&](tensor_record& evicted) {
                           const auto which = static_cast<std::size_t>(&evicted - owners.data());
                           REQUIRE(slots.at(which) != nullptr);
                           REQUIRE(slots.at(which)->state == slot_state::kept);
                           slots.at(which) = nullptr;
                           for (cell& c : model) {
                             if (c.owner == static_cast<int>(which)) c = {-1, false, c.behind};
                           }
                         });
        std::size_t room = 0;
        std::size_t run = 0;
        for (const cell& c : model) {
          run = c.owner == -1 || c.kept ? run + 1 : 0;
          room = std::max(room, run);
        }
        REQUIRE((mine != nullptr) == (room >= wanted));
        if (mine == nullptr) continue;
        REQUIRE(mine->bytes == wanted * slot_alignment);
        stream_clock expected;
        for (std::size_t u = first_unit(*mine); u < first_unit(*mine) + wanted; ++u) {
          REQUIRE(model[u].owner == -1);
          expected.join(model[u].behind);
          model[u].owner = id;
        }
        REQUIRE(mine->behind == expected);
      } else if (random() % 2 == 0) {
        const stream_clock behind = point(static_cast<stream_id>(random() % 3), ++clock);
        for (cell& c : model) {
          if (c.owner == id) c = {-1, false, behind};
        }
        slab.give_back(*mine, behind);
        mine = nullptr;
      } else {
        mine->state = slot_state::kept;
        mine->rank = ++rank;
        mine->behind = point(static_cast<stream_id>(random() % 3), ++clock);
        for (cell& c : model) {
          if (c.owner == id) c = {id, true, mine->behind};
        }
      }
    }
  }
}

TEST_CASE("window slab: what is kept goes in the order of stowing, and only below the rank asked for") {
  std::vector<std::byte> memory(4 * slot_alignment);
  window_slab slab({memory.data(), memory.size()});
  std::array<tensor_record, 6> owners;
  std::vector<const tensor_record*> evicted;
  const auto evict = [&](const tensor_record& r) { evicted.push_back(&r); };
  std::array<slot*, 4> kept{};
  for (std::size_t i = 0; i < 4; ++i) {
    kept.at(i) = slab.take(slot_alignment, owners.at(i), any_rank, {}, {}, evict);
    kept.at(i)->state = slot_state::kept;
    kept.at(i)->rank = 10 - i;  // the last is the first stowed
  }
  CHECK(slab.take(slot_alignment, owners[4], 7, {}, {}, evict) == nullptr);
  CHECK(evicted.empty());
  CHECK(slab.take(slot_alignment, owners[4], 8, {}, {}, evict)->begin == memory.data() + 3 * slot_alignment);
  CHECK(evicted == std::vector<const tensor_record*>{&owners[3]});
  CHECK(slab.take(2 * slot_alignment, owners[5], any_rank, {}, {}, evict)->begin == memory.data() + slot_alignment);
  CHECK(evicted.size() == 3);
}

TEST_CASE("window slab: room for what is still to come stays in one piece") {
  std::vector<std::byte> memory(12 * slot_alignment);
  window_slab slab({memory.data(), memory.size()});
  std::array<tensor_record, 4> owners;
  const auto evict = [](tensor_record&) {};
  slot* const old = slab.take(2 * slot_alignment, owners[0], any_rank, {}, {}, evict);
  old->state = slot_state::kept;
  old->rank = 1;
  // Three of four units each, and twelve in all: only packed do they fit, the free middle notwithstanding.
  slot* const a = slab.take(4 * slot_alignment, owners[1], any_rank, {8 * slot_alignment}, {}, evict);
  slot* const b = slab.take(4 * slot_alignment, owners[2], any_rank, {4 * slot_alignment}, {}, evict);
  slot* const c = slab.take(4 * slot_alignment, owners[3], any_rank, {}, {}, evict);
  REQUIRE((a != nullptr && b != nullptr && c != nullptr));
}

TEST_CASE("slots: what is needed of every stream is compared, of the unusual ones too") {
  ho::detail::stream_clock needed;
  ho::detail::stream_clock by;
  CHECK(ho::detail::is_covered(needed, by));
  for (std::size_t i = 0; i < ho::detail::max_streams; ++i) {
    CAPTURE(i);
    needed.at[i] = 3;
    by.at[i] = 2;
    CHECK_FALSE(ho::detail::is_covered(needed, by));
    by.at[i] = 3;
    CHECK(ho::detail::is_covered(needed, by));
  }
}

TEST_CASE("slot cache: exact sizes, and the slot with the least to wait for") {
  vg::reset(vg::gb200());
  {
    slot_cache<ho::device_allocation> cache;
    tensor_record owner;
    const purpose what{"t", 0, {}};
    slot& a = cache.take(512, owner, {}, what);
    slot& b = cache.take(512, owner, {}, what);
    slot& c = cache.take(256, owner, {}, what);
    CHECK(cache.used_bytes() == 1280);
    cache.give_back(a, point(1, 7));
    cache.give_back(b, point(2, 3));
    cache.give_back(c, {});
    CHECK(&cache.take(512, owner, point(2, 3), what) == &b);
    CHECK(&cache.take(512, owner, point(2, 3), what) == &a);
    CHECK(&cache.take(256, owner, {}, what) == &c);
    CHECK(cache.total_bytes() == 1280);
    cache.reserve(1024, what);
    slot& d = cache.take(768, owner, {}, what);
    slot& e = cache.take(256, owner, {}, what) /* cut from the same piece */;
    CHECK(e.begin == d.begin + 768);
    CHECK(cache.total_bytes() == 2304);
  }
  CHECK(vg::leaks().empty());
}

TEST_CASE("stream order: waits that are implied are not issued", "[virtual]") {
  vg::reset(vg::gb200());
  {
    ho::stream one, two, three;
    stream_order order;
    const stream_id a = order.add(one.get(), "a");
    const stream_id b = order.add(two.get(), "b");
    const stream_id c = order.add(three.get(), "c");
    order.fix();
    const auto waits = [] { return vg::calls("cudaStreamWaitEvent"); };
    const auto records = [] { return vg::calls("cudaEventRecord"); };

    CHECK(order.next_point(a) == 1);
    order.put_behind(b, point(a, 1));  // the point is recorded when somebody has to wait for it
    CHECK((waits() == 1 && records() == 1));
    order.put_behind(b, point(a, 1));
    CHECK(waits() == 1);
    order.put_behind(a, point(a, 2));  // a stream is behind itself
    CHECK((waits() == 1 && records() == 1));

    const std::uint64_t in_b = order.record(b);
    order.put_behind(c, point(b, in_b));  // and so behind a's first point
    order.put_behind(c, point(a, 1));
    CHECK(waits() == 2);

    stream_clock both = point(a, order.record(a));
    order.put_behind(b, both);
    both.join(b, order.record(b));
    const std::uint64_t before = waits();
    order.put_behind(c, both);  // b's point implies a's
    CHECK(waits() == before + 1);
    CHECK(order.is_behind(c, both));
    CHECK_FALSE(order.is_behind(a, both));
  }
  CHECK(vg::leaks().empty());
  CHECK(vg::findings().empty());
}

TEST_CASE("stream order: a point whose event was recorded again is covered by a later one of its stream", "[virtual]") {
  vg::reset(vg::gb200());
  {
    ho::stream one, two;
    stream_order order;
    const stream_id a = order.add(one.get(), "a");
    const stream_id b = order.add(two.get(), "b");
    order.fix();
    order.begin_step();
    const std::uint64_t early = order.record(a);
    for (int i = 0; i < 40; ++i) order.record(a);  // the first step keeps all its points
    const std::uint64_t created = vg::calls("cudaEventCreateWithFlags");
    for (int step = 0; step < 3; ++step) {
      order.begin_step();
      for (int i = 0; i < 41; ++i) order.record(a);
    }
    CHECK(vg::calls("cudaEventCreateWithFlags") == created);
    order.put_behind(b, point(a, early));
    CHECK(order.is_behind(b, point(a, early)));
    CHECK(vg::calls("cudaStreamWaitEvent") == 1);
  }
  CHECK(vg::findings().empty());
}

TEST_CASE("stream order: a stream that takes the place of one that is gone goes behind its last lease", "[virtual]") {
  vg::reset(vg::gb200());
  {
    const ho::stream compute;
    stream_order order;
    const stream_id c = order.add(compute.get(), "compute");
    order.fix();
    std::vector<ho::stream> first;
    std::vector<stream_id> ids;
    stream_clock last_leases;
    for (std::size_t i = 1; i < max_streams; ++i) {
      first.emplace_back();
      ids.push_back(order.find(first.back().get()));
      order.lease_begins(ids.back());
      last_leases.join(ids.back(), order.lease_ends(ids.back()));
    }
    const ho::stream next;
    const std::uint64_t waits = vg::calls("cudaStreamWaitEvent");
    const stream_id taken = order.find(next.get());
    CHECK(std::count(ids.begin(), ids.end(), taken) == 1);
    CHECK(vg::calls("cudaStreamWaitEvent") == waits + 1);
    CHECK(order.find(next.get()) == taken);
    order.lease_begins(taken);
    const std::uint64_t later = order.lease_ends(taken);
    order.put_behind(c, point(taken, later));
    CHECK(order.is_behind(c, point(taken, last_leases.at[taken])));  // of the stream that is gone
    for (const stream_id s : ids) order.lease_begins(s);
    const ho::stream one_more;
    CHECK_THROWS_AS(order.find(one_more.get()), ho::usage_error);
  }
  CHECK(vg::findings().empty());
}
