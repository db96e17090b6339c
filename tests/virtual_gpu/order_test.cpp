// Effects in any order that the program allows.

#include <hostoffload/virtual_gpu/faults.hpp>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "support.hpp"

namespace {

/// Kernels that write down their names as they run.
class journal {
public:
  void kernel(cudaStream_t s, char name) {
    ok(launch(s, "k", {}, {}, {.flops = 1e6}, [this, name] { ran_ += name; }));
  }
  [[nodiscard]] const std::string& ran() const { return ran_; }
  [[nodiscard]] bool before(char first, char second) const {
    return ran_.find(first) != std::string::npos && ran_.find(first) < ran_.find(second);
  }

private:
  std::string ran_;
};

}  // namespace

TEST_CASE("two streams interleave in every way, and each keeps its order") {
  std::set<std::string> orders;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    gpu g;
    vg::execution_order(seed);
    journal l;
    auto* a = g.stream();
    auto* b = g.stream();
    for (char name : {'a', 'b', 'c'}) l.kernel(a, name);
    for (char name : {'x', 'y'}) l.kernel(b, name);
    ok(cudaDeviceSynchronize());
    CAPTURE(seed, l.ran());
    REQUIRE(l.ran().size() == 5);
    REQUIRE((l.before('a', 'b') && l.before('b', 'c') && l.before('x', 'y')));
    orders.insert(l.ran());
  }
  CHECK(orders.size() == 10);  // 5 choose 2
}

TEST_CASE("a seed repeats its order") {
  std::string first;
  for (int run = 0; run < 2; ++run) {
    gpu g;
    vg::execution_order(7);
    journal l;
    cudaStream_t s[3] = {g.stream(), g.stream(), g.stream()};
    for (char i = 0; i < 24; ++i) l.kernel(s[i % 3], static_cast<char>('a' + i));
    ok(cudaDeviceSynchronize());
    if (run == 0) first = l.ran();
    CHECK(l.ran() == first);
  }
  CHECK(first != "abcdefghijklmnopqrstuvwx");
}

TEST_CASE("events order effects: as they were recorded, also through third streams, also when they are past") {
  std::set<std::string> orders;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    gpu g;
    vg::execution_order(seed);
    journal l;
    auto* a = g.stream();
    auto* b = g.stream();
    auto* c = g.stream();
    auto* e = g.event();
    l.kernel(a, 'a');
    ok(cudaEventRecord(e, a));
    l.kernel(a, 'b');
    ok(cudaStreamWaitEvent(b, e, 0));
    ok(cudaEventRecord(e, b));
    vg::host_works(1);  // all is over in virtual time; the host does not know
    ok(cudaStreamWaitEvent(c, e, 0));
    l.kernel(c, 'c');
    ok(cudaDeviceSynchronize());
    CAPTURE(seed, l.ran());
    REQUIRE(l.ran().size() == 3);
    REQUIRE((l.before('a', 'b') && l.before('a', 'c')));
    orders.insert(l.ran());
  }
  CHECK(orders == std::set<std::string>{"abc", "acb"});
}

TEST_CASE("the legacy default stream orders effects of blocking streams only") {
  std::set<std::string> orders;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    gpu g;
    vg::execution_order(seed);
    journal l;
    auto* a = g.stream(cudaStreamDefault);
    auto* b = g.stream(cudaStreamDefault);
    auto* n = g.stream();
    l.kernel(n, 'n');
    l.kernel(a, 'a');
    l.kernel(nullptr, 'd');
    l.kernel(b, 'b');
    ok(cudaDeviceSynchronize());
    CAPTURE(seed, l.ran());
    REQUIRE((l.before('a', 'd') && l.before('d', 'b')));
    orders.insert(l.ran());
  }
  CHECK(orders == std::set<std::string>{"nadb", "andb", "adnb", "adbn"});
}

TEST_CASE("what the host waited for, or asked for with success, has taken effect, the rest may have") {
  std::set<std::string> seen;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    gpu g;
    vg::execution_order(seed);
    journal l;
    auto* a = g.stream();
    auto* b = g.stream();
    auto* e = g.event();
    l.kernel(a, 'a');
    ok(cudaEventRecord(e, a));
    l.kernel(a, 'b');
    l.kernel(b, 'x');
    CHECK(cudaEventQuery(e) == cudaErrorNotReady);
    CHECK(l.ran().empty());
    if (seed % 2 == 0) {
      ok(cudaEventSynchronize(e));
    } else {
      vg::host_works(1);
      ok(cudaEventQuery(e));
    }
    CAPTURE(seed, l.ran());
    REQUIRE(l.ran().find('a') != std::string::npos);
    seen.insert(l.ran());
    ok(cudaStreamSynchronize(b));
    REQUIRE(l.ran().find('x') != std::string::npos);
    ok(cudaStreamSynchronize(a));
    REQUIRE(l.ran().size() == 3);
  }
  CHECK(seen.count("a") == 1);
  CHECK(seen.count("ab") == 1);
  CHECK(seen.count("xab") == 1);
}

TEST_CASE("bytes arrive in every order, virtual times and findings do not change") {
  for (std::uint64_t seed = 0; seed <= 5; ++seed) {
    gpu g;
    vg::execution_order(seed);
    auto* in = g.stream();
    auto* k = g.stream();
    auto* out = g.stream();
    auto* arrived = g.event();
    auto* ready = g.event();
    auto* from = g.pinned(1'000'000);
    auto* to = g.pinned(1'000'000);
    auto* x = g.device(1'000'000);
    std::memset(from, 3, 1'000'000);
    const double zero = vg::now();
    ok(cudaMemcpyAsync(x, from, 1'000'000, cudaMemcpyHostToDevice, in));
    ok(cudaEventRecord(arrived, in));
    ok(cudaStreamWaitEvent(k, arrived, 0));
    ok(launch(k, "double", {{x, 1'000'000}}, {{x, 1'000'000}}, {.flops = 3e6}, [x] {
      for (int i = 0; i < 1'000'000; ++i) x[i] = static_cast<std::byte>(2 * static_cast<int>(x[i]));
    }));
    ok(cudaEventRecord(ready, k));
    ok(cudaStreamWaitEvent(out, ready, 0));
    ok(cudaMemcpyAsync(to, x, 1'000'000, cudaMemcpyDeviceToHost, out));
    ok(cudaStreamSynchronize(out));
    CAPTURE(seed);
    CHECK(std::all_of(to, to + 1'000'000, [](std::byte b) { return b == std::byte{6}; }));
    CHECK(vg::now() - zero == us(17 + 3 + 4 + 3 + 19.5));
    CHECK(silent());
  }
}

TEST_CASE("memory stays until the effects that were ordered before its free are over") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    gpu g;
    vg::execution_order(seed);
    auto* s = g.stream();
    auto* t = g.stream();
    journal l;
    int sum = 0;
    for (int i = 0; i < 20; ++i) {
      void* p = nullptr;
      ok(cudaMallocAsync(&p, 4096, s));
      ok(cudaMemsetAsync(p, 1, 4096, s));
      ok(launch(s, "sum", {{p, 4096}}, {}, {}, [p, &sum] { sum += static_cast<const unsigned char*>(p)[4095]; }));
      ok(cudaFreeAsync(p, s));
      l.kernel(t, 'x');
      if (i % 5 == 4) {
        vg::host_works(1);
        ok(cudaStreamSynchronize(t));  // the pool gives its memory back
      }
    }
    ok(cudaDeviceSynchronize());
    CHECK(sum == 20);
  }
}

TEST_CASE("a long queue runs by itself, switching off runs the rest") {
  gpu g;
  vg::execution_order(3);
  auto* s = g.stream();
  int ran = 0;
  for (int i = 0; i < 5000; ++i) ok(launch(s, "k", {}, {}, {}, [&ran] { ++ran; }));
  CHECK(ran > 0);
  CHECK(ran < 5000);
  vg::execution_order(0);
  CHECK(ran == 5000);
  ok(launch(s, "k", {}, {}, {}, [&ran] { ++ran; }));
  CHECK(ran == 5000);
  ok(cudaStreamSynchronize(s));
  CHECK(ran == 5001);
}

TEST_CASE("a lost device runs nothing more, in any order") {
  gpu g;
  vg::execution_order(3);
  auto* s = g.stream();
  bool ran = false;
  ok(launch(s, "k", {}, {}, {}, [&ran] { ran = true; }));
  vg::fail_call(1, cudaErrorLaunchFailure);
  CHECK(cudaStreamSynchronize(s) == cudaErrorLaunchFailure);
  vg::execution_order(0);
  CHECK_FALSE(ran);
}
