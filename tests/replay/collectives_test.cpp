// Collectives of a rank on the virtual GPU: results, and durations worked out by hand.

#include <collectives/virtual_collectives.hpp>

#include <common/device_array.hpp>
#include <common/element.hpp>

#include <hostoffload/cuda/stream.hpp>
#include <hostoffload/virtual_gpu/control.hpp>

#include "catch.hpp"

#include <algorithm>
#include <vector>

namespace {

namespace ho = hostoffload;
namespace vg = ho::virtual_gpu;
using examples::device_array;

constexpr collectives::network network{.reduce_and_gather = 100e9, .all_to_all = 50e9, .latency = 10e-6};

double seconds(const char* name) {
  for (const vg::operation& op : vg::timeline()) {
    if (op.name == name) return op.end - op.start - vg::current_machine().kernel_latency.value;
  }
  FAIL("no " << name);
  return 0;
}

}  // namespace

TEST_CASE("a rank among peers that hold the same: results and findings") {
  vg::reset(vg::gb200());
  const ho::stream s;
  const auto group = collectives::make_virtual_communicator(4, 2, network);
  CHECK(group->ranks() == 4);
  device_array<float> two(2), eight(8), out(8);
  two.from_host(std::vector<float>{1, 2}, s.get());
  group->all_gather(s.get(), two.data(), out.data(), two.bytes());
  CHECK(out.to_host(s.get()) == std::vector<float>{1, 2, 1, 2, 1, 2, 1, 2});

  eight.from_host(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, s.get());
  group->reduce_scatter(s.get(), eight.data(), two.data(), 2, collectives::element::fp32);
  CHECK(two.to_host(s.get()) == std::vector<float>{16, 20});
  group->all_to_all(s.get(), eight.data(), out.data(), 2 * sizeof(float));
  CHECK(out.to_host(s.get()) == std::vector<float>{4, 5, 4, 5, 4, 5, 4, 5});
  group->all_reduce(s.get(), two.data(), 2, collectives::element::fp32);
  CHECK(two.to_host(s.get()) == std::vector<float>{64, 80});

  device_array<examples::bf16> halves(2);
  halves.from_host(std::vector<examples::bf16>{examples::bf16(1.5F), examples::bf16(-3)}, s.get());
  group->all_reduce(s.get(), halves.data(), 2, collectives::element::bf16);
  const auto sums = halves.to_host(s.get());
  CHECK(static_cast<float>(sums[0]) == 6);
  CHECK(static_cast<float>(sums[1]) == -12);
  for (const auto& f : vg::findings()) FAIL_CHECK(f.message);
}

TEST_CASE("a collective lasts its latency and its bytes over the link, and takes no SM") {
  vg::reset(vg::gb200(), 1, vg::mode::dry);
  const ho::stream s, compute;
  const auto group = collectives::make_virtual_communicator(4, 0, network);
  constexpr std::size_t mb = 1'000'000;
  const device_array<std::byte> part(100 * mb), whole(400 * mb), other(400 * mb);
  for (const auto* a : {&part, &whole})
    ho::check(cudaMemsetAsync(a->data(), 0, a->bytes(), s.get()), "cudaMemsetAsync");
  ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  vg::clear_timeline();
  const double flops = 10e-3 * vg::current_machine().rate(hostoffload_bf16).value;
  const auto nothing = [](std::size_t) {};
  ho::launch(compute.get(), 1, nothing, {.name = "beside", .flops = flops, .rate = ho::precision::bf16});
  group->all_gather(s.get(), part.data(), whole.data(), part.bytes());
  group->reduce_scatter(s.get(), whole.data(), part.data(), 50 * mb, collectives::element::bf16);
  group->all_reduce(s.get(), whole.data(), 100 * mb, collectives::element::fp32);
  group->all_to_all(s.get(), whole.data(), other.data(), 100 * mb);
  ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  CHECK(seconds("all_gather") == Approx(10e-6 + 300e6 / 100e9));
  CHECK(seconds("reduce_scatter") == Approx(10e-6 + 300e6 / 100e9));
  CHECK(seconds("all_reduce") == Approx(2 * (10e-6 + 300e6 / 100e9)));
  CHECK(seconds("all_to_all") == Approx(10e-6 + 300e6 / 50e9));
  CHECK(seconds("beside") == Approx(10e-3));
}

TEST_CASE("a group of one sends nothing, and what makes no sense is refused") {
  CHECK(collectives::link_bytes(400, 4) == 300);
  CHECK(collectives::link_bytes(400, 1) == 0);
  CHECK_THROWS(collectives::make_virtual_communicator(4, 4, network));
  CHECK_THROWS(collectives::make_virtual_communicator(4, 0, {.reduce_and_gather = 0, .all_to_all = 1, .latency = 0}));
  vg::reset(vg::gb200(), 1, vg::mode::dry);
  const ho::stream s;
  const device_array<std::byte> a(1000), b(1000);
  ho::check(cudaMemsetAsync(a.data(), 0, a.bytes(), s.get()), "cudaMemsetAsync");
  collectives::make_virtual_communicator(1, 0, network)->all_to_all(s.get(), a.data(), b.data(), 1000);
  ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  CHECK(seconds("all_to_all") < 1e-6);
}
