// Small programs with one planted fault each, and the same program mended: silent.

#include <string>

#include "support.hpp"

namespace {

constexpr std::size_t kb = 1024;

// What the messages must say: both operations by name and stream, and how to order them.
void names_both(const vg::finding& f, const std::string& first, const std::string& second) {
  INFO(f.message);
  CHECK(f.first.find("\"" + first + "\"") == 0);
  CHECK(f.second.find("\"" + second + "\"") == 0);
  CHECK(f.message.find(f.first) != std::string::npos);
  CHECK(f.message.find(f.second) != std::string::npos);
  CHECK_FALSE(f.missing_edge.empty());
}

unsigned long long id(cudaStream_t s) {
  unsigned long long n = 0;
  ok(cudaStreamGetId(s, &n));
  return n;
}

}  // namespace

TEST_CASE("race: a kernel reads what another stream's kernel writes") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* e = g.event();
  auto* d = g.filled(4 * kb);
  const bool mended = GENERATE(false, true);
  ok(launch(a, "producer", {}, {{d, 2 * kb}}));
  if (mended) {
    ok(cudaEventRecord(e, a));
    ok(cudaStreamWaitEvent(b, e, 0));
  }
  ok(launch(b, "consumer", {{d + kb, 2 * kb}}, {}));
  if (mended) {
    CHECK(silent());
    return;
  }
  REQUIRE(found(vg::finding_kind::race) == 1);
  const auto f = vg::findings()[0];
  names_both(f, "producer", "consumer");
  CHECK(f.message.find("reads bytes [1024, 2048) of cudaMalloc of 4096 bytes") != std::string::npos);
  CHECK(f.missing_edge.find("record an event on stream " + std::to_string(id(a)) + " after call #") !=
        std::string::npos);
  CHECK(f.missing_edge.find("let stream " + std::to_string(id(b)) + " wait") != std::string::npos);
}

TEST_CASE("race: what ran in a lucky order is still one") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* d = g.filled(kb);
  ok(launch(a, "producer", {}, {{d, kb}}));
  vg::host_works(1);  // over long ago, but nobody asked
  ok(launch(b, "consumer", {{d, kb}}, {}));
  CHECK(found(vg::finding_kind::race) == 1);
}

TEST_CASE("race: an event recorded too early does not cover the write") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* e = g.event();
  auto* d = g.filled(kb);
  ok(cudaEventRecord(e, a));
  ok(launch(a, "producer", {}, {{d, kb}}));
  ok(cudaStreamWaitEvent(b, e, 0));
  ok(launch(b, "consumer", {{d, kb}}, {}));
  CHECK(found(vg::finding_kind::race) == 1);
}

TEST_CASE("race: a slot is refilled while a copy out, or a kernel, still reads it") {
  gpu g;
  auto* compute = g.stream();
  auto* out = g.stream();
  auto* in = g.stream();
  auto* e = g.event();
  auto* d = g.filled(kb);
  auto* h = g.pinned(2 * kb);
  const bool mended = GENERATE(false, true);
  ok(cudaMemcpyAsync(h, d, kb, cudaMemcpyDeviceToHost, out));
  ok(launch(compute, "reader", {{d, kb}}, {}));
  if (mended) {
    ok(cudaEventRecord(e, out));
    ok(cudaStreamWaitEvent(in, e, 0));
    ok(cudaEventRecord(e, compute));
    ok(cudaStreamWaitEvent(in, e, 0));
  }
  ok(cudaMemcpyAsync(d, h + kb, kb, cudaMemcpyHostToDevice, in));
  if (mended) {
    CHECK(silent());
    return;
  }
  REQUIRE(found(vg::finding_kind::race) == 2);  // with each reader
  names_both(vg::findings()[0], "cudaMemcpyAsync", "cudaMemcpyAsync");
  names_both(vg::findings()[1], "reader", "cudaMemcpyAsync");
}

TEST_CASE("race: a copy in reads the host slot before the copy out has ended") {
  gpu g;
  auto* out = g.stream();
  auto* in = g.stream();
  auto* e = g.event();
  auto* d = g.filled(2 * kb);
  auto* h = g.pinned(kb);
  const bool mended = GENERATE(false, true);
  ok(cudaMemcpyAsync(h, d, kb, cudaMemcpyDeviceToHost, out));
  if (mended) {
    ok(cudaEventRecord(e, out));
    ok(cudaStreamWaitEvent(in, e, 0));
  }
  ok(cudaMemcpyAsync(d + kb, h, kb, cudaMemcpyHostToDevice, in));
  if (mended) {
    CHECK(silent());
    return;
  }
  REQUIRE(found(vg::finding_kind::race) == 1);
  CHECK(vg::findings()[0].message.find("of cudaHostAlloc of 1024 bytes") != std::string::npos);
}

TEST_CASE("no race: order passes through other streams, the host, and the legacy stream") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* c = g.stream();
  auto* e = g.event();
  auto* f = g.event();
  auto* d = g.filled(kb);
  ok(launch(a, "k1", {}, {{d, kb}}));
  SECTION("two hops") {
    ok(cudaEventRecord(e, a));
    ok(cudaStreamWaitEvent(b, e, 0));
    ok(cudaEventRecord(f, b));
    ok(cudaStreamWaitEvent(c, f, 0));
  }
  SECTION("stream synchronisation") { ok(cudaStreamSynchronize(a)); }
  SECTION("event synchronisation") {
    ok(cudaEventRecord(e, a));
    ok(cudaEventSynchronize(e));
  }
  SECTION("a query that says done") {
    ok(cudaEventRecord(e, a));
    vg::host_works(1);
    ok(cudaEventQuery(e));
  }
  SECTION("device synchronisation") { ok(cudaDeviceSynchronize()); }
  ok(launch(c, "k2", {{d, kb}}, {{d, kb}}));
  CHECK(silent());
}

TEST_CASE("readers in several streams do not race with one another, the writer must wait for all") {
  gpu g;
  auto* writer = g.stream();
  auto* e = g.event();
  auto* d = g.filled(kb);
  std::vector<cudaStream_t> readers;
  for (int i = 0; i < 5; ++i) {
    readers.push_back(g.stream());
    ok(launch(readers.back(), "reader", {{d, kb}}, {}));
  }
  CHECK(silent());
  const auto forgotten = GENERATE(std::size_t{0}, std::size_t{2}, std::size_t{4}, std::size_t{5});
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (i == forgotten) continue;
    ok(cudaEventRecord(e, readers[i]));
    ok(cudaStreamWaitEvent(writer, e, 0));
  }
  ok(launch(writer, "writer", {}, {{d, kb}}));
  CHECK(found(vg::finding_kind::race) == (forgotten < 5 ? 1 : 0));
}

TEST_CASE("equal faults are counted, not repeated") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* d = g.filled(kb);
  for (int i = 0; i < 10; ++i) {
    ok(launch(a, "producer", {}, {{d, kb}}));
    ok(launch(b, "consumer", {{d, kb}}, {}));
  }
  REQUIRE(vg::findings().size() == 2);  // write then read, and read then write
  CHECK(vg::findings()[0].count == 10);
  CHECK(vg::findings()[1].count == 9);
  vg::clear_findings();
  CHECK(silent());
}

TEST_CASE("use after free: a slot given back inside a slab") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(4 * kb);
  vg::slot_given_back(d + kb, kb);
  ok(launch(s, "neighbours", {{d, kb}}, {{d + 2 * kb, kb}}));
  CHECK(silent());
  const bool taken = GENERATE(false, true);
  if (taken) vg::slot_taken(d + kb, kb);
  ok(launch(s, "writer", {}, {{d + kb, 100}}));
  ok(launch(s, "reader", {{d + kb, 100}}, {}));
  if (taken) {
    CHECK(silent());
    return;
  }
  REQUIRE(found(vg::finding_kind::use_after_free) == 2);
  CHECK(vg::findings()[0].message.find("\"writer\"") != std::string::npos);
  CHECK(vg::findings()[0].message.find("bytes [1024, 1124)") != std::string::npos);
}

TEST_CASE("use after free: a write over neighbours of which one was given back leaves each what it is") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(4 * kb);
  for (std::size_t i = 0; i < 4; ++i) ok(launch(s, "piece", {}, {{d + i * kb, kb}}));
  vg::slot_given_back(d + 2 * kb, kb);
  ok(launch(s, "all", {}, {{d, 4 * kb}}));
  CHECK(found(vg::finding_kind::use_after_free) == 1);
  vg::clear_findings();
  ok(launch(s, "around", {{d, 2 * kb}, {d + 3 * kb, kb}}, {}));
  CHECK(silent());
  ok(launch(s, "inside", {{d + 2 * kb + 1, 1}}, {}));
  CHECK(found(vg::finding_kind::use_after_free) == 1);
  vg::clear_findings();
  vg::slot_taken(d + 2 * kb, kb);
  ok(launch(s, "fresh", {{d + 2 * kb, kb}}, {}));
  CHECK(found(vg::finding_kind::uninitialised_read) == 1);
}

TEST_CASE("a slot that changes hands still needs order between the old and the new") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* d = g.filled(kb);
  ok(launch(a, "old owner", {{d, kb}}, {}));
  vg::slot_given_back(d, kb);
  vg::slot_taken(d, kb);
  ok(launch(b, "new owner", {}, {{d, kb}}));
  REQUIRE(found(vg::finding_kind::race) == 1);
  names_both(vg::findings()[0], "old owner", "new owner");
}

TEST_CASE("use after free: stream-ordered memory") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* e = g.event();
  void* p = nullptr;
  ok(cudaMallocAsync(&p, kb, a));
  const bool mended = GENERATE(false, true);
  if (mended) {
    ok(cudaEventRecord(e, a));
    ok(cudaStreamWaitEvent(b, e, 0));
  }
  ok(launch(b, "before the allocation", {}, {{p, kb}}));
  if (mended) {
    ok(cudaEventRecord(e, b));
    ok(cudaStreamWaitEvent(a, e, 0));
  }
  ok(cudaFreeAsync(p, a));
  if (mended) {
    CHECK(silent());
    return;
  }
  CHECK(found(vg::finding_kind::race) == 1);            // with the allocation
  CHECK(found(vg::finding_kind::use_after_free) == 1);  // freed while it is written
  bool ran = false;
  ok(launch(b, "after the free", {{p, kb}}, {}, {}, [&] { ran = true; }));
  CHECK(found(vg::finding_kind::use_after_free) == 2);
  ok(cudaDeviceSynchronize());
  CHECK_FALSE(ran);
}

TEST_CASE("use after free: freed memory") {
  gpu g;
  auto* s = g.stream();
  void* p = nullptr;
  ok(cudaMalloc(&p, kb));
  ok(cudaFree(p));
  bool ran = false;
  ok(launch(s, "late", {}, {{p, 10}}, {}, [&] { ran = true; }));
  REQUIRE(found(vg::finding_kind::use_after_free) == 1);
  CHECK(vg::findings()[0].message.find("that was freed by call #") != std::string::npos);
  CHECK(cudaMemset(p, 0, 10) == cudaErrorInvalidValue);
  ok(cudaStreamSynchronize(s));
  CHECK_FALSE(ran);
}

TEST_CASE("out of bounds: across the end of an allocation, and nowhere at all") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(kb);
  int local = 0;
  bool ran = false;
  ok(launch(s, "inside", {{d, kb}}, {{d + kb - 1, 1}, {nullptr, 0}}));
  CHECK(silent());
  ok(launch(s, "too long", {{d + 1, kb}}, {}, {}, [&] { ran = true; }));
  ok(launch(s, "host memory", {{&local, sizeof local}}, {}, {}, [&] { ran = true; }));
  CHECK(found(vg::finding_kind::out_of_bounds) == 2);
  ok(cudaStreamSynchronize(s));
  CHECK_FALSE(ran);
}

TEST_CASE("uninitialised read: of fresh memory, of a fresh slot, of fresh stream-ordered memory") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.device(2 * kb);
  ok(cudaMemsetAsync(d, 0, kb, s));
  ok(launch(s, "half", {{d, 2 * kb}}, {}));
  REQUIRE(found(vg::finding_kind::uninitialised_read) == 1);
  CHECK(vg::findings()[0].message.find("bytes [1024, 2048)") != std::string::npos);
  vg::clear_findings();
  vg::slot_taken(d, kb);
  ok(launch(s, "slot", {{d, kb}}, {}));
  CHECK(found(vg::finding_kind::uninitialised_read) == 1);
  vg::clear_findings();
  ok(launch(s, "writes", {}, {{d, 2 * kb}}));
  ok(launch(s, "reads", {{d, 2 * kb}}, {{d, 2 * kb}}));
  CHECK(silent());
  void* p = nullptr;
  ok(cudaMallocAsync(&p, kb, s));
  ok(launch(s, "pool", {{p, kb}}, {}));
  CHECK(found(vg::finding_kind::uninitialised_read) == 1);
  ok(cudaFreeAsync(p, s));
}

TEST_CASE("host access in flight") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(kb);
  auto* h = g.pinned(2 * kb);
  const bool mended = GENERATE(false, true);
  ok(cudaMemcpyAsync(h, d, kb, cudaMemcpyDeviceToHost, s));
  vg::host_reads(h + kb, kb);  // other bytes
  CHECK(silent());
  if (mended) ok(cudaStreamSynchronize(s));
  vg::host_reads(h, 10);
  ok(cudaMemcpyAsync(d, h, kb, cudaMemcpyHostToDevice, s));
  if (mended) ok(cudaStreamSynchronize(s));
  vg::host_writes(h, kb);
  if (mended) {
    CHECK(silent());
    return;
  }
  REQUIRE(found(vg::finding_kind::host_access_in_flight) == 3);
  const auto f = vg::findings()[0];
  names_both(f, "cudaMemcpyAsync", "host read");
  CHECK(f.missing_edge.find("synchronise the host with stream " + std::to_string(id(s))) != std::string::npos);
}

TEST_CASE("what the host wrote is initialised, and ordered before what is enqueued later") {
  gpu g;
  auto* h = g.pinned(kb);
  auto* d = g.device(kb);
  vg::slot_taken(h, kb);
  const bool written = GENERATE(false, true);
  if (written) vg::host_writes(h, kb);
  ok(cudaMemcpyAsync(d, h, kb, cudaMemcpyHostToDevice, g.stream()));
  CHECK(found(vg::finding_kind::uninitialised_read) == (written ? 0 : 1));
}

TEST_CASE("pinned memory freed while a copy uses it") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(kb);
  void* h = nullptr;
  ok(cudaHostAlloc(&h, kb, cudaHostAllocDefault));
  const bool mended = GENERATE(false, true);
  ok(cudaMemcpyAsync(h, d, kb, cudaMemcpyDeviceToHost, s));
  if (mended) ok(cudaStreamSynchronize(s));
  ok(cudaFreeHost(h));
  CHECK(found(vg::finding_kind::use_after_free) == (mended ? 0 : 1));
}

TEST_CASE("memory freed on one device while another device uses it") {
  gpu g(round_numbers(), 2);
  void* p = nullptr;
  ok(cudaMalloc(&p, kb));
  ok(cudaSetDevice(1));
  auto* s1 = g.stream();
  const bool mended = GENERATE(false, true);
  ok(launch(s1, "peer", {}, {{p, kb}}));
  if (mended) ok(cudaStreamSynchronize(s1));
  ok(cudaFree(p));
  CHECK(found(vg::finding_kind::use_after_free) == (mended ? 0 : 1));
}

TEST_CASE("waits that do not wait") {
  gpu g;
  auto* s = g.stream();
  auto* e = g.event();
  ok(cudaStreamWaitEvent(s, e, 0));
  REQUIRE(found(vg::finding_kind::never_recorded_wait) == 1);
  CHECK(vg::findings()[0].message.find("on stream " + std::to_string(id(s))) != std::string::npos);
  ok(cudaEventSynchronize(e));
  CHECK(found(vg::finding_kind::never_recorded_wait) == 2);
  vg::clear_findings();
  ok(cudaEventRecord(e, s));
  ok(cudaStreamWaitEvent(s, e, 0));
  CHECK(silent());

  cudaEvent_t gone = nullptr;
  ok(cudaEventCreate(&gone));
  ok(cudaEventDestroy(gone));
  CHECK(cudaStreamWaitEvent(s, gone, 0) == cudaErrorInvalidResourceHandle);
  CHECK(found(vg::finding_kind::bad_wait) == 1);
}

TEST_CASE("frees of what is no allocation") {
  gpu g;
  auto* d = g.device(kb);
  auto* h = g.pinned(kb);
  int local = 0;
  CHECK(cudaFree(&local) == cudaErrorInvalidValue);
  CHECK(cudaFree(d + 1) == cudaErrorInvalidValue);
  CHECK(cudaFree(h) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(d) == cudaErrorInvalidValue);
  void* twice = nullptr;
  ok(cudaMalloc(&twice, kb));
  ok(cudaFree(twice));
  CHECK(cudaFree(twice) == cudaErrorInvalidValue);
  CHECK(found(vg::finding_kind::bad_free) == 2);  // by cudaFree and by cudaFreeHost
}

TEST_CASE("leaks: memory, streams, events") {
  gpu g;
  CHECK(vg::leaks().empty());
  void* d = nullptr;
  void* h = nullptr;
  cudaStream_t s = nullptr;
  cudaEvent_t e = nullptr;
  ok(cudaMalloc(&d, kb));
  ok(cudaHostAlloc(&h, kb, cudaHostAllocDefault));
  ok(cudaStreamCreate(&s));
  ok(cudaEventCreate(&e));
  const auto leaks = vg::leaks();
  REQUIRE(leaks.size() == 4);
  for (const auto& l : leaks) CHECK(l.kind == vg::finding_kind::leak);
  ok(cudaFree(d));
  ok(cudaFreeHost(h));
  ok(cudaStreamDestroy(s));
  ok(cudaEventDestroy(e));
  CHECK(vg::leaks().empty());
}

TEST_CASE("a stream made after another was destroyed is not taken for it") {
  gpu g;
  auto* d = g.filled(kb);
  auto* b = g.stream();
  cudaStream_t a = nullptr;
  ok(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  ok(launch(a, "old", {}, {{d, kb}}));
  ok(cudaStreamDestroy(a));
  vg::host_works(1);  // its work is done, but nobody has waited for it
  auto* c = g.stream();
  CHECK(c != a);
  ok(launch(c, "new", {{d, kb}}, {}));
  CHECK(found(vg::finding_kind::race) == 1);
  ok(cudaDeviceSynchronize());
  vg::clear_findings();
  ok(launch(b, "later", {}, {{d, kb}}));
  CHECK(silent());
}

TEST_CASE("a random program: what the detector knows agrees with reachability") {
  // Operations on few streams with random waits; the reference keeps for each operation the set of those before it.
  const auto seed = GENERATE(1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U);
  INFO("seed " << seed);
  gpu g;
  std::uint64_t state = seed * 0x9e3779b97f4a7c15U;
  const auto draw = [&state](std::size_t n) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(state >> 33) % n;
  };
  constexpr std::size_t streams = 4;
  constexpr std::size_t cells = 3;
  constexpr std::size_t operations = 120;
  using set = std::vector<bool>;
  struct step {
    std::size_t cell;
    bool write;
    set before;
  };
  std::vector<cudaStream_t> s;
  std::vector<set> reach(streams, set(operations));
  for (std::size_t i = 0; i < streams; ++i) s.push_back(g.stream());
  auto* d = g.filled(cells * kb);
  std::vector<step> steps;
  for (std::size_t i = 0; i < operations; ++i) {
    const std::size_t on = draw(streams);
    if (const std::size_t from = draw(streams); from != on && draw(2) == 0) {
      auto* e = g.event();
      ok(cudaEventRecord(e, s[from]));
      ok(cudaStreamWaitEvent(s[on], e, 0));
      for (std::size_t j = 0; j < i; ++j) reach[on][j] = reach[on][j] || reach[from][j];
    }
    const step now{draw(cells), draw(3) == 0, reach[on]};
    vg::clear_findings();
    auto* at = d + now.cell * kb;
    ok(launch(s[on], "k", now.write ? std::vector<range>{} : std::vector<range>{{at, kb}},
              now.write ? std::vector<range>{{at, kb}} : std::vector<range>{}));
    // The last write, and for a write the reads since then, must be before this operation.
    bool race = false;
    for (std::size_t j = i; j-- > 0;) {
      if (steps[j].cell != now.cell) continue;
      if ((now.write || steps[j].write) && !now.before[j]) race = true;
      if (steps[j].write) break;
    }
    INFO("operation " << i);
    REQUIRE((found(vg::finding_kind::race) > 0) == race);
    reach[on][i] = true;
    steps.push_back(now);
  }
}
