// Timelines worked out by hand, in microseconds on the machine of round numbers (support.hpp).

#include <algorithm>
#include <set>
#include <string_view>

#include "support.hpp"

namespace {

constexpr std::size_t mb = 1'000'000;

// Engines idle and clocks at a common zero, whatever the set-up took.
double start_of_measurement() {
  ok(cudaDeviceSynchronize());
  vg::clear_timeline();
  return vg::now();
}

void to_device(std::byte* d, const std::byte* h, std::size_t bytes, cudaStream_t s) {
  ok(cudaMemcpyAsync(d, h, bytes, cudaMemcpyHostToDevice, s));
}
void to_host(std::byte* h, const std::byte* d, std::size_t bytes, cudaStream_t s) {
  ok(cudaMemcpyAsync(h, d, bytes, cudaMemcpyDeviceToHost, s));
}

}  // namespace

TEST_CASE("a kernel takes the longer of its arithmetic and its memory traffic, and the latency") {
  gpu g;
  auto* s = g.stream();
  const double zero = start_of_measurement();
  ok(launch(s, "by arithmetic", {}, {}, {.flops = 5e6, .bytes = 2e6}));  // 5 µs of vector units, 2 µs of HBM
  ok(launch(s, "by memory", {}, {}, {.flops = 5e6, .bytes = 8e6}));      // 8 µs of HBM
  ok(launch(s, "matrix", {}, {}, {.flops = 500e6, .precision = hostoffload_bf16}));
  ok(launch(s, "empty", {}, {}));
  ok(cudaStreamSynchronize(s));
  CHECK(completed("by arithmetic", 0, zero).start == us(0));
  CHECK(completed("by arithmetic", 0, zero).end == us(6));
  CHECK(completed("by memory", 0, zero).start == us(6));
  CHECK(completed("by memory", 0, zero).end == us(15));
  CHECK(completed("matrix", 0, zero).end == us(21));
  CHECK(completed("empty", 0, zero).end == us(22));
  CHECK(vg::now() - zero == us(22));
  CHECK(completed("matrix").flops == 500e6);
  CHECK(completed("matrix").uses == vg::resource::compute);
}

TEST_CASE("a kernel that waits outside the device lasts as long, and leaves the SMs to others") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  const double zero = start_of_measurement();
  ok(launch(a, "network", {}, {}, {.bytes = 2e6, .seconds = 20e-6}));
  ok(launch(b, "arithmetic", {}, {}, {.flops = 10e6}));
  ok(cudaDeviceSynchronize());
  CHECK(completed("network", 0, zero).end == us(21));
  CHECK(completed("arithmetic", 0, zero).end == us(11));
  CHECK(launch(a, "negative", {}, {}, {.seconds = -1}) == cudaErrorInvalidValue);
}

TEST_CASE("a precision that the machine has no units for is refused") {
  gpu g;
  CHECK(launch(g.stream(), "fp4", {}, {}, {.flops = 1, .precision = hostoffload_fp4}) == cudaErrorNotSupported);
  CHECK(launch(g.stream(), "negative", {}, {}, {.flops = -1}) == cudaErrorInvalidValue);
}

TEST_CASE("copies ramp up with size, and cost less latency when they queue") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.device(4 * mb);
  auto* h = g.pinned(4 * mb);
  const double zero = start_of_measurement();
  to_device(d, h, 1 * mb, s);  // 7 + 10
  to_device(d, h, 2 * mb, s);  // 2 + 20, behind the other
  to_device(d, h, 1, s);       // 2 + 0
  ok(cudaStreamSynchronize(s));
  CHECK(completed("copy to device", 0, zero).end == us(17));
  CHECK(completed("copy to device", 1, zero).start == us(17));
  CHECK(completed("copy to device", 1, zero).end == us(39));
  CHECK(completed("copy to device", 2, zero).end == us(41.00001));

  const double later = start_of_measurement();
  to_device(d, h, 1 * mb, s);  // enqueued at the moment at which the engine has become idle
  ok(cudaStreamSynchronize(s));
  CHECK(vg::now() - later == us(17));
}

TEST_CASE("90 % of the link's rate needs nine times latency times rate") {
  gpu g(vg::gb200());
  const double rate = vg::gb200().link.to_device.value;
  const auto bytes = static_cast<std::size_t>(9 * 7e-6 * rate);  // 12.7 MB
  auto* s = g.stream();
  auto* d = g.device(bytes);
  auto* h = g.pinned(bytes);
  ok(cudaDeviceSynchronize());
  vg::clear_timeline();
  to_device(d, h, bytes, s);
  ok(cudaStreamSynchronize(s));
  const auto copy = completed("copy to device");
  CHECK(static_cast<double>(bytes) / (copy.end - copy.start) == Approx(0.9 * rate).epsilon(1e-6));
}

TEST_CASE("a copy and a kernel overlap, the kernel loses the HBM traffic of the copy") {
  gpu g;
  auto* compute = g.stream();
  auto* link = g.stream();
  auto* d = g.device(10 * mb);
  auto* h = g.pinned(10 * mb);
  double zero = start_of_measurement();
  to_device(d, h, 2 * mb, link);                                  // 0 to 7 + 20
  ok(launch(compute, "by arithmetic", {}, {}, {.flops = 30e6}));  // HBM does not matter
  ok(cudaDeviceSynchronize());
  CHECK(completed("copy to device", 0, zero).end == us(27));
  CHECK(completed("by arithmetic", 0, zero).end == us(31));

  zero = start_of_measurement();
  to_device(d, h, 2 * mb, link);
  ok(launch(compute, "by memory", {}, {}, {.bytes = 36e6}));
  ok(cudaDeviceSynchronize());
  // From 1 to 7 at 1 TB/s: 6 MB. From 7 to 27 at 0.9 TB/s: 18 MB. The last 12 MB take 12 µs.
  CHECK(completed("copy to device", 0, zero).end == us(27));
  CHECK(completed("by memory", 0, zero).end == us(39));
}

TEST_CASE("kernels that run at one time are slowed by one factor") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  double zero = start_of_measurement();
  ok(launch(a, "short", {}, {}, {.flops = 10e6}));
  ok(launch(b, "long", {}, {}, {.flops = 30e6}));
  ok(cudaDeviceSynchronize());
  // Both start at 1 and need all SMs: half speed until the short one's 10 µs are done at 21; the long one has 20 left.
  CHECK(completed("short", 0, zero).end == us(21));
  CHECK(completed("long", 0, zero).end == us(41));

  zero = start_of_measurement();
  ok(launch(a, "compute", {}, {}, {.flops = 10e6, .bytes = 1e6}));  // 10 µs, 10 % of the HBM
  ok(launch(b, "memory", {}, {}, {.flops = 1e6, .bytes = 10e6}));   // 10 µs, 10 % of the SMs
  ok(cudaDeviceSynchronize());
  CHECK(completed("compute", 0, zero).end == us(1 + 11));
  CHECK(completed("memory", 0, zero).end == us(1 + 11));
}

TEST_CASE("copies on the device and memsets are HBM work") {
  gpu g;
  auto* s = g.stream();
  auto* d = g.filled(4 * mb);
  const double zero = start_of_measurement();
  ok(cudaMemcpyAsync(d, d + 2 * mb, 2 * mb, cudaMemcpyDeviceToDevice, s));  // reads and writes: 4 MB
  ok(cudaMemsetAsync(d, 1, 3 * mb, s));
  ok(cudaStreamSynchronize(s));
  CHECK(completed("copy on device", 0, zero).end == us(5));
  CHECK(completed("memset", 0, zero).end == us(5 + 4));
  CHECK(completed("memset").uses == vg::resource::memory);
}

TEST_CASE("a copy from one device to another goes at the rate between them") {
  gpu g(round_numbers(), 2);
  auto* d = g.filled(2 * mb);
  ok(cudaSetDevice(1));
  auto* other = g.filled(2 * mb);
  ok(cudaSetDevice(0));
  auto* s = g.stream();
  const double zero = start_of_measurement();
  ok(cudaMemcpyAsync(other, d, 2 * mb, cudaMemcpyDeviceToDevice, s));
  ok(cudaStreamSynchronize(s));
  CHECK(completed("copy on device", 0, zero).end == us(1 + 4));
}

TEST_CASE("both directions at once share the link") {
  gpu g;
  auto* in = g.stream();
  auto* out = g.stream();
  auto* d = g.filled(8 * mb);
  auto* h = g.pinned(8 * mb);
  const double zero = start_of_measurement();
  to_device(d, h, 3 * mb, in);
  to_host(h + 4 * mb, d + 4 * mb, 4 * mb, out);
  ok(cudaDeviceSynchronize());
  // 60 GB/s each from 7 on: 3 MB are there at 57; the other has 1 MB left, alone at 80 GB/s.
  CHECK(completed("copy to device", 0, zero).end == us(57));
  CHECK(completed("copy to host", 0, zero).end == us(57 + 12.5));
}

TEST_CASE("GB200's measured rates: alone, both at once, two GPUs on one Grace") {
  const std::size_t bytes = 64 * mb;
  const auto size = static_cast<double>(bytes);
  const auto rate = [size](const vg::operation& op) { return size / (op.end - op.start - 7e-6) / 1e9; };
  gpu g(vg::gb200(), 2);
  cudaStream_t in[2];
  cudaStream_t out[2];
  std::byte* d[2];
  for (int i = 0; i < 2; ++i) {
    ok(cudaSetDevice(i));
    in[i] = g.stream();
    out[i] = g.stream();
    d[i] = g.filled(2 * bytes);
  }
  auto* h = g.pinned(4 * bytes);
  const auto begin = [] {
    for (int i = 0; i < 2; ++i) {
      ok(cudaSetDevice(i));
      ok(cudaDeviceSynchronize());
    }
    vg::clear_timeline();
  };
  const auto end = [] {
    for (int i = 0; i < 2; ++i) {
      ok(cudaSetDevice(i));
      ok(cudaDeviceSynchronize());
    }
  };
  begin();
  to_device(d[0], h, bytes, in[0]);
  end();
  CHECK(rate(completed("copy to device")) == Approx(201));

  begin();
  to_host(h, d[0], bytes, out[0]);
  end();
  CHECK(rate(completed("copy to host")) == Approx(193));

  // Calls take time on this machine: the second copy starts a little later, so rates hold within a part in a hundred.
  begin();
  to_device(d[0], h, bytes, in[0]);
  to_host(h + bytes, d[0] + bytes, bytes, out[0]);
  end();
  CHECK(rate(completed("copy to device")) == Approx(165).epsilon(0.01));
  CHECK(rate(completed("copy to host")) == Approx(165).epsilon(0.01));

  begin();
  for (int i = 0; i < 2; ++i) to_device(d[i], h, bytes, in[i]);
  end();
  CHECK(rate(completed("copy to device", 0)) == Approx(168).epsilon(0.01));
  CHECK(rate(completed("copy to device", 1)) == Approx(168).epsilon(0.01));

  begin();
  for (int i = 0; i < 2; ++i) {
    to_device(d[i], h, bytes, in[i]);
    to_host(h + bytes + static_cast<std::size_t>(i) * bytes, d[i] + bytes, bytes, out[i]);
  }
  end();
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(rate(completed("copy to device", i)) == Approx(82).epsilon(0.02));
    CHECK(rate(completed("copy to host", i)) == Approx(82).epsilon(0.02));
  }
}

TEST_CASE("two GPUs on one host memory: rates by max-min fairness") {
  gpu g(round_numbers(), 2);
  ok(cudaSetDevice(1));
  auto* in1 = g.stream();
  auto* d1 = g.filled(8 * mb);
  ok(cudaSetDevice(0));
  auto* in0 = g.stream();
  auto* out0 = g.stream();
  auto* d0 = g.filled(8 * mb);
  auto* h = g.pinned(16 * mb);
  double zero = start_of_measurement();
  to_device(d0, h, 3 * mb, in0);
  to_device(d1, h, 6 * mb, in1);
  ok(cudaStreamSynchronize(in0));
  ok(cudaStreamSynchronize(in1));
  // 150 GB/s over two: 75 each until the first ends at 7 + 40; then 3 MB at 100.
  CHECK(completed("copy to device", 0, zero).end == us(47));
  CHECK(completed("copy to device", 1, zero).end == us(77));

  zero = start_of_measurement();
  to_device(d0, h, 6 * mb, in0);
  to_host(h + 8 * mb, d0, 6 * mb, out0);
  to_device(d1, h, 8 * mb, in1);
  ok(cudaStreamSynchronize(in0));
  ok(cudaStreamSynchronize(out0));
  ok(cudaStreamSynchronize(in1));
  // Device 0 has 60 in each direction. Together they may have 200, so device 1 has 80, the rest.
  CHECK(completed("copy to device", 0, zero).end == us(107));
  CHECK(completed("copy to host", 0, zero).end == us(107));
  CHECK(completed("copy to device", 1, zero).end == us(107));
}

TEST_CASE("one engine per direction, in order of readiness, priority breaks ties") {
  gpu g;
  auto* a = g.stream(cudaStreamNonBlocking, 0);
  auto* b = g.stream(cudaStreamNonBlocking, -3);
  auto* gate = g.stream();
  auto* d = g.device(4 * mb);
  auto* h = g.pinned(4 * mb);
  auto* e = g.event();
  const double zero = start_of_measurement();
  ok(launch(gate, "gate", {}, {}, {.flops = 9e6}));  // until 10
  ok(cudaEventRecord(e, gate));
  ok(cudaStreamWaitEvent(a, e, 0));
  ok(cudaStreamWaitEvent(b, e, 0));
  to_device(d, h, 1 * mb, a);
  to_device(d + mb, h, 2 * mb, b);
  ok(cudaDeviceSynchronize());
  // Both are ready at 10 + 3. The higher priority goes first: 7 + 20; then 2 + 10.
  CHECK(completed("copy to device", 0, zero).bytes == 2e6);
  CHECK(completed("copy to device", 0, zero).start == us(13));
  CHECK(completed("copy to device", 0, zero).end == us(40));
  CHECK(completed("copy to device", 1, zero).end == us(52));
}

TEST_CASE("copies that are ready at one moment, in streams of one priority, go in the order of the calls") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* gate = g.stream();
  auto* d = g.device(4 * mb);
  auto* h = g.pinned(4 * mb);
  auto* e = g.event();
  ok(launch(gate, "gate", {}, {}, {.flops = 9e6}));
  ok(cudaEventRecord(e, gate));
  ok(cudaStreamWaitEvent(a, e, 0));
  ok(cudaStreamWaitEvent(b, e, 0));
  to_device(d, h, 2 * mb, b);
  to_device(d + 2 * mb, h, 1 * mb, a);
  ok(cudaDeviceSynchronize());
  CHECK(completed("copy to device", 0).bytes == 2e6);
  CHECK(completed("copy to device", 1).bytes == 1e6);
}

TEST_CASE("a wait costs latency only where it waits") {
  gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* e = g.event();
  const double zero = start_of_measurement();
  ok(launch(a, "first", {}, {}, {.flops = 4e6}));  // until 5
  ok(cudaEventRecord(e, a));
  ok(cudaStreamWaitEvent(b, e, 0));
  ok(launch(b, "second", {}, {}, {.flops = 4e6}));  // from 5 + 3
  ok(launch(a, "other", {}, {}, {.flops = 19e6}));  // from 5, alone till 9, then at half speed
  ok(cudaDeviceSynchronize());
  CHECK(completed("event wait", 0, zero).start == us(0));
  CHECK(completed("event wait", 0, zero).end == us(8));
  CHECK(completed("second", 0, zero).start == us(8));
  // `other` has 3 of 19 done at 9; both at half speed until `second` is done at 17, with 12 left.
  CHECK(completed("second", 0, zero).end == us(17));
  CHECK(completed("other", 0, zero).end == us(29));

  const double later = start_of_measurement();
  ok(cudaStreamWaitEvent(b, e, 0));  // over long ago
  ok(launch(b, "third", {}, {}, {.flops = 4e6}));
  ok(cudaDeviceSynchronize());
  CHECK(completed("third", 0, later).end == us(5));
}

TEST_CASE("calls cost the host time, and nothing starts before it is enqueued") {
  vg::machine m = round_numbers();
  m.host.launch = 4 * micro;
  m.host.record = 1 * micro;
  m.host.wait = 0.5 * micro;
  m.host.copy = 2 * micro;
  m.host.synchronise = 10 * micro;
  gpu g(m);
  auto* s = g.stream();
  auto* e = g.event();
  const double zero = start_of_measurement();
  ok(launch(s, "k", {}, {}, {.flops = 1e6}));
  ok(launch(s, "k", {}, {}, {.flops = 1e6}));
  ok(cudaEventRecord(e, s));
  ok(cudaStreamWaitEvent(s, e, 0));
  CHECK(vg::now() - zero == us(9.5));
  vg::host_works(100 * micro);
  ok(launch(s, "k", {}, {}, {.flops = 50e6}));
  CHECK(completed("k", 0, zero).start == us(4));  // the host is slower than the device
  CHECK(completed("k", 0, zero).end == us(6));
  CHECK(completed("k", 1, zero).start == us(8));
  ok(cudaStreamSynchronize(s));
  CHECK(completed("k", 2, zero).enqueued == us(113.5));
  CHECK(completed("k", 2, zero).end == us(113.5 + 51));
  CHECK(vg::now() - zero == us(113.5 + 51));  // the wait is longer than the call
}

TEST_CASE("pinning takes host time by its bytes") {
  gpu g;
  const double zero = vg::now();
  g.pinned(25 * mb);
  CHECK(vg::now() - zero == Approx(25e6 / (2.5 * 1024 * 1024 * 1024)));
}

TEST_CASE("with an infinitely fast link copies take no time and no HBM") {
  gpu g(vg::infinitely_fast_link(round_numbers()), 2);
  auto* in = g.stream();
  auto* out = g.stream();
  auto* compute = g.stream();
  auto* d = g.filled(8 * mb);
  auto* h = g.pinned(8 * mb);
  const double zero = start_of_measurement();
  ok(launch(compute, "by memory", {}, {}, {.bytes = 10e6}));
  for (int i = 0; i < 3; ++i) {
    to_device(d, h, 4 * mb, in);
    to_host(h + 4 * mb, d + 4 * mb, 4 * mb, out);
  }
  ok(cudaStreamSynchronize(in));
  ok(cudaStreamSynchronize(out));
  CHECK(vg::now() - zero == us(0));
  ok(cudaDeviceSynchronize());
  CHECK(completed("by memory", 0, zero).end == us(11));
}

TEST_CASE("kinds and resources have names of their own, and a value that is none has a question mark") {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(vg::operation_kind::host_function); ++i)
    names.insert(to_string(static_cast<vg::operation_kind>(i)));
  CHECK(names.size() == 10);
  for (int i = 0; i <= static_cast<int>(vg::resource::memory); ++i)
    names.insert(to_string(static_cast<vg::resource>(i)));
  CHECK(names.size() == 15);
  CHECK_FALSE(names.contains("?"));
  CHECK(to_string(vg::resource::copy_engine_to_host) == "copy engine to host");
  CHECK(to_string(static_cast<vg::operation_kind>(99)) == "?");
  CHECK(to_string(static_cast<vg::resource>(99)) == "?");
  CHECK(to_string(static_cast<vg::finding_kind>(99)) == "?");
}

TEST_CASE("the timeline can be cleared and switched off") {
  gpu g;
  auto* s = g.stream();
  vg::clear_timeline();
  vg::record_timeline(false);
  ok(launch(s, "unseen", {}, {}));
  ok(cudaStreamSynchronize(s));
  CHECK(vg::timeline().empty());
  vg::record_timeline(true);
  ok(launch(s, "seen", {}, {}));
  ok(cudaStreamSynchronize(s));
  REQUIRE(vg::timeline().size() == 1);
  CHECK(vg::timeline()[0].name == "seen");
  CHECK(vg::timeline()[0].call > 0);
}

TEST_CASE("the timeline says what a copy moves and which record a wait waits for") {
  gpu g;
  auto* s = g.stream();
  auto* other = g.stream();
  auto* d = g.device(mb);
  auto* h = g.pinned(mb);
  auto* e = g.event();
  start_of_measurement();
  to_device(d, h, mb, s);
  ok(cudaEventRecord(e, s));
  ok(cudaStreamWaitEvent(other, e, 0));
  to_host(h, d, mb, other);
  ok(cudaDeviceSynchronize());
  const auto all = vg::timeline();
  const auto one = [&](vg::operation_kind kind) {
    return *std::find_if(all.begin(), all.end(), [&](const vg::operation& o) { return o.kind == kind; });
  };
  CHECK(one(vg::operation_kind::copy_to_device).to == d);
  CHECK(one(vg::operation_kind::copy_to_device).from == h);
  CHECK(one(vg::operation_kind::copy_to_host).to == h);
  CHECK(one(vg::operation_kind::copy_to_host).from == d);
  CHECK(one(vg::operation_kind::wait).waits_for == one(vg::operation_kind::record).call);
  CHECK(one(vg::operation_kind::record).waits_for == 0);
}
