// Pinned memory in one piece: its size, its place, its limits, and what is said of it.

#include "catch.hpp"

#include <hostoffload/memory/pinned_slab.hpp>
#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/faults.hpp>

#include "library/gpu.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <numeric>
#include <ostream>
#include <sstream>
#include <streambuf>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace ho::literals;

namespace {

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

bool is_resident(const ho::memory_region& r) {
  const std::size_t pages = (r.bytes + page() - 1) / page();
  std::vector<unsigned char> present(pages);
  REQUIRE(mincore(r.begin, r.bytes, present.data()) == 0);
  return std::all_of(present.begin(), present.end(), [](unsigned char p) { return (p & 1U) != 0; });
}

/// A folder that stands for "/", with one control group that allows `limit` bytes.
class small_group {
public:
  explicit small_group(std::size_t limit)
      : root_(std::filesystem::temp_directory_path() / ("hostoffload_group_" + std::to_string(getpid()) + "_" +
                                                        std::to_string(reinterpret_cast<std::uintptr_t>(this)))) {
    std::filesystem::create_directories(root_ / "proc/self");
    std::filesystem::create_directories(root_ / "sys/fs/cgroup/job");
    std::ofstream(root_ / "proc/self/cgroup") << "0::/job\n";
    std::ofstream(root_ / "sys/fs/cgroup/job/memory.max") << limit << '\n';
    std::ofstream(root_ / "sys/fs/cgroup/job/memory.current") << "5000\n";
    std::ofstream(root_ / "sys/fs/cgroup/job/memory.stat") << "inactive_file 3000\n";
  }
  small_group(const small_group&) = delete;
  small_group& operator=(const small_group&) = delete;
  ~small_group() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  [[nodiscard]] std::string root() const { return root_.string(); }

private:
  std::filesystem::path root_;
};

vg::machine on_node(int node) {
  vg::machine m = vg::gb200();
  m.host_numa_node = node;
  return m;
}

/// Of no computer that this test runs on.
constexpr int no_such_node = 1000;

}  // namespace

TEST_CASE("pinned slab: exact size, at most a page of waste, all of it there, and it copies") {
  const gpu device;
  for (const ho::pinning how : {ho::pinning::registered, ho::pinning::allocated}) {
    for (const std::size_t bytes :
         {std::size_t{1}, page() - 1, page(), page() + 1, 20 * page() + 77, 9 * (1_MiB) + 5}) {
      INFO("bytes " << bytes << ", how " << static_cast<int>(how));
      const ho::pinned_slab slab(bytes, {.how = how, .threads = 3});
      CHECK(slab.region().bytes == bytes);
      CHECK(reinterpret_cast<std::uintptr_t>(slab.region().begin) % page() == 0);
      CHECK(slab.pinned_bytes() >= bytes);
      CHECK(slab.pinned_bytes() - bytes < page());
      CHECK(vg::memory_usage().pinned_bytes == slab.pinned_bytes());
      if (how == ho::pinning::registered) CHECK(is_resident(slab.region()));

      std::memset(slab.region().begin, 42, bytes);
      const ho::device_allocation there(bytes);
      REQUIRE(cudaMemcpy(there.region().begin, slab.region().begin, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
      std::memset(slab.region().begin, 0, bytes);
      REQUIRE(cudaMemcpy(slab.region().begin, there.region().begin, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
      const auto* const p = static_cast<const unsigned char*>(slab.region().begin);
      CHECK(std::count(p, p + bytes, 42) == static_cast<std::ptrdiff_t>(bytes));
      CHECK(slab.warnings().empty());
    }
  }
  CHECK(vg::memory_usage().pinned_bytes == 0);
  CHECK(vg::calls("cudaHostRegister") == 6);
  CHECK(vg::calls("cudaHostAlloc") == 6);
}

TEST_CASE("pinned slab: more than the capacity is an error before CUDA is called or memory is taken") {
  const gpu device;
  std::ostringstream log;
  for (const ho::pinning how : {ho::pinning::registered, ho::pinning::allocated}) {
    try {
      const ho::pinned_slab slab(64_MiB + 1, {.how = how, .log = &log, .progress_every = {}}, 64_MiB);
      FAIL("no error");
    } catch (const ho::host_capacity_error& e) {
      CHECK(e.needed() == 64_MiB + 1);
      CHECK(e.capacity() == 64_MiB);
      CHECK_THAT(e.what(), Catch::Contains("67108865 bytes") && Catch::Contains("67108864 bytes"));
    }
  }
  CHECK_THROWS_AS(ho::pinned_slab(0), ho::usage_error);
  CHECK_THROWS_AS(ho::pinned_slab(1_MiB, {.node = -1}), ho::usage_error);
  CHECK(vg::call_counts().empty());
  CHECK(log.str().empty());
}

TEST_CASE("pinned slab: more than a control group leaves is an error with the numbers, before anything is pinned") {
  const gpu device;
  const small_group group(102000);
  for (const ho::pinning how : {ho::pinning::registered, ho::pinning::allocated}) {
    try {
      const ho::pinned_slab slab(100001, {.how = how, .root = group.root()});
      FAIL("no error");
    } catch (const ho::host_capacity_error& e) {
      CHECK(e.needed() == 100001);
      CHECK(e.capacity() == 100000);
      CHECK_THAT(e.what(), Catch::Contains("100001 bytes") && Catch::Contains("/sys/fs/cgroup/job/memory.max") &&
                               Catch::Contains("allows 102000 bytes") && Catch::Contains("2000 are used") &&
                               Catch::Contains("3000 of cache not counted") && Catch::Contains("100000 left"));
    }
  }
  CHECK(vg::call_counts().empty());
  const ho::pinned_slab fits(100000, {.root = group.root()});
  CHECK(vg::calls("cudaHostRegister") == 1);
}

TEST_CASE("pinned slab: the limit for locked memory is stated, and does not bound it") {
  const gpu device;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_MEMLOCK, &before) == 0);
  const rlimit small{4096, before.rlim_max};
  if (before.rlim_max < 4096) FAIL("the hard limit for locked memory is below 4096 bytes");
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &small) == 0);
  const small_group group(102000);
  std::string text;
  try {
    const ho::pinned_slab slab(200000, {.root = group.root()});
  } catch (const ho::host_capacity_error& e) {
    text = e.what();
  }
  const ho::pinned_slab slab(90000, {.root = group.root()});
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &before) == 0);
  CHECK(slab.region().bytes == 90000);
  CHECK_THAT(text, Catch::Contains("locked memory, which does not bound this, is 4096 bytes"));
}

TEST_CASE("pinned slab: on the GPU's NUMA node, and where that is impossible a warning and on") {
  SECTION("the node that CUDA states") {
    const gpu device(on_node(0));
    const ho::pinned_slab slab(3_MiB);
    CHECK(slab.node() == 0);
    CHECK(slab.warnings().empty());
  }
  SECTION("CUDA states none") {
    const gpu device(on_node(-1));
    const ho::pinned_slab slab(3_MiB);
    CHECK(slab.node() == std::nullopt);
    CHECK(slab.warnings().empty());
  }
  SECTION("a node that the system does not have") {
    const gpu device(on_node(no_such_node));
    std::ostringstream log;
    const ho::pinned_slab slab(3_MiB, {.log = &log});
    CHECK(slab.node() == no_such_node);
    REQUIRE(slab.warnings().size() == 2);
    CHECK_THAT(slab.warnings()[0], Catch::Contains("not bound to NUMA node 1000") && Catch::Contains("mbind: "));
    CHECK_THAT(slab.warnings()[1], Catch::Contains("100 % of the pinned memory is not on NUMA node 1000"));
    CHECK(log.str() ==
          "hostoffload: warning: " + slab.warnings()[0] + "\nhostoffload: warning: " + slab.warnings()[1] + '\n');
    CHECK(is_resident(slab.region()));
  }
  SECTION("the caller's choice, whatever CUDA says") {
    const gpu device(on_node(no_such_node));
    const ho::pinned_slab slab(3_MiB, {.node = 0});
    CHECK(slab.node() == 0);
    CHECK(slab.warnings().empty());
  }
  SECTION("a driver that does not know") {
    const gpu device;
    vg::fail_call(2, cudaErrorInvalidValue);
    const ho::pinned_slab slab(3_MiB);
    REQUIRE(slab.warnings().size() == 1);
    CHECK_THAT(slab.warnings()[0], Catch::Contains("cudaDeviceGetAttribute: cudaErrorInvalidValue"));
    vg::clear_faults();
  }
}

TEST_CASE("pinned slab: with huge pages it begins at one, and is as exact") {
  const gpu device;
  const ho::pinned_slab slab(5_MiB + 1, {.huge_pages = true});
  CHECK(reinterpret_cast<std::uintptr_t>(slab.region().begin) % (2_MiB) == 0);
  CHECK(slab.pinned_bytes() == 5_MiB + page());
  CHECK(is_resident(slab.region()));
  for (const std::string& warning : slab.warnings()) CHECK_THAT(warning, Catch::Contains("huge pages"));
}

TEST_CASE("pinned slab: each CUDA call fails once, and nothing is left") {
  for (std::uint64_t n = 1; n <= 3; ++n) {
    for (const cudaError_t code : {cudaErrorMemoryAllocation, cudaErrorUnknown}) {
      INFO("call " << n << ", error " << code);
      const gpu device(on_node(0));
      vg::fail_call(n, code);
      try {
        const ho::pinned_slab slab(1_MiB);
        CHECK(n == 2);  // which node it is: a warning
      } catch (const ho::out_of_memory& e) {
        CHECK(n == 3);
        CHECK(code == cudaErrorMemoryAllocation);
        CHECK(e.requested() == 1_MiB);
        CHECK_THAT(e.what(), Catch::Contains("cudaHostRegister"));
      } catch (const ho::cuda_error& e) {
        CHECK(n != 2);
        CHECK(e.code() == code);
      }
      vg::clear_faults();
      CHECK(vg::memory_usage().pinned_bytes == 0);
    }
  }
  const gpu device;
  vg::fail_call(4, cudaErrorUnknown);
  { const ho::pinned_slab slab(1_MiB, {.node = 0}); }
  vg::clear_faults();
}

TEST_CASE("pinned slab: more than there are addresses for is out of memory, and says how much was wanted") {
  const gpu device;
  const small_group group((std::size_t{1} << 61U) + 5000);
  constexpr std::size_t bytes = std::size_t{1} << 60U;
  try {
    const ho::pinned_slab slab(bytes, {.root = group.root()});
    FAIL("2^60 bytes were mapped");
  } catch (const ho::out_of_memory& e) {
    CHECK(e.call() == "mmap");
    CHECK(e.requested() == bytes);
    CHECK_THAT(e.what(), Catch::Contains(std::to_string(bytes)));
  }
}

TEST_CASE("pinned slab: a move leaves one owner") {
  const gpu device;
  ho::pinned_slab a(1_MiB);
  void* const begin = a.region().begin;
  ho::pinned_slab b(std::move(a));
  CHECK(a.region().begin == nullptr);
  CHECK(b.region().begin == begin);
  ho::pinned_slab c(2_MiB, {.how = ho::pinning::allocated});
  c = std::move(b);
  CHECK(c.region().begin == begin);
  CHECK(vg::memory_usage().pinned_bytes == 1_MiB);
  ho::pinned_slab& same = c;
  c = std::move(same);
  CHECK(c.region().begin == begin);
  CHECK(c.pinned_bytes() == 1_MiB);
}

TEST_CASE("pinned slab: two are exchanged with their pages, and pages that are assigned to are given back") {
  const gpu device;
  ho::pinned_slab a(page());
  ho::pinned_slab b(2 * page());
  void* const begin = a.region().begin;
  a.swap(b);
  CHECK(a.region().bytes == 2 * page());
  CHECK(b.region().begin == begin);
  b = std::move(a);
  CHECK(b.region().bytes == 2 * page());
  CHECK(vg::memory_usage().pinned_bytes == 2 * page());

  ho::detail::host_pages one(page(), page());
  ho::detail::host_pages other(3 * page(), page());
  std::byte* const first = other.begin();
  one = std::move(other);
  CHECK(one.begin() == first);
  CHECK(one.bytes() == 3 * page());
}

TEST_CASE("pinned slab: progress is told where it takes longer, and the end of it") {
  const gpu device;
  std::ostringstream log;
  { const ho::pinned_slab slab(1_MiB, {.log = &log, .progress_every = std::chrono::hours(1)}); }
  CHECK(log.str().empty());
  { const ho::pinned_slab slab(1_MiB, {.log = &log, .progress_every = {}}); }
  CHECK_THAT(log.str(), Catch::Contains("pinned 1.00 MiB of host memory in "));

  /// Lets the test wait for the first whole line.
  class waiting_buffer : public std::stringbuf {
  public:
    void wait_for_line() {
      std::unique_lock lock(mutex_);
      written_.wait(lock, [this] { return lines_ != 0; });
    }

  private:
    int sync() override {
      const std::lock_guard lock(mutex_);
      ++lines_;
      written_.notify_all();
      return 0;
    }
    std::mutex mutex_;
    std::condition_variable written_;
    int lines_ = 0;
  };
  waiting_buffer buffer;
  std::ostream waited(&buffer);
  {
    ho::detail::pinning_progress progress(&waited, std::chrono::milliseconds(1), 8_GiB);
    progress.touched = 2_GiB;
    buffer.wait_for_line();
  }
  const std::string text = buffer.str();
  CHECK_THAT(text, Catch::Contains("pinning 8.00 GiB of host memory: ") && Catch::Contains(" touched after "));
  CHECK_THAT(text, !Catch::Contains("pinned 8.00 GiB"));  // it did not succeed
}

namespace {

struct everything_offloaded {
  enum class name { a, b };
  using placement = ho::placement<name, ho::offload_these<name::a, name::b>>;
};
using first = ho::offload_tensor<float, everything_offloaded::placement::of<everything_offloaded::name::a>>;
using second = ho::offload_tensor<float, everything_offloaded::placement::of<everything_offloaded::name::b>>;

/// Makes both, puts them away, and looks at them again.
template <class First, class Second>
void one_step(ho::prefetch_scheduler& scheduler, cudaStream_t stream, First& a, Second& b) {
  seen one(a.elements());
  seen two(b.elements());
  {
    ho::step step(scheduler);
    {
      auto p = a.produce(stream);
      fill(stream, p.data(), p.size(), 1);
    }
    {
      auto p = b.produce(stream);
      fill(stream, p.data(), p.size(), 7);
    }
    {
      auto p = std::move(b).fetch(stream);
      two.look(stream, p.data());
    }
    {
      auto p = std::move(a).fetch(stream);
      one.look(stream, p.data());
    }
    step.end();
  }
  CHECK(one.is(1));
  CHECK(two.is(7));
}

}  // namespace

TEST_CASE(
    "pinned slab: a scheduler that is told to registers what its tensors need, once, with at most a page of waste") {
  const gpu device(on_node(0));
  const ho::stream stream;
  ho::prefetch_scheduler scheduler({.compute = stream.get(),
                                    .window = 65536,
                                    .host_capacity = 1_GiB,
                                    .host_pinning = {.how = ho::pinning::registered},
                                    .observer = watched});
  first a(scheduler, 10000);
  second b(scheduler, 6001);
  const std::size_t needed = 40192 + 24064;  // at slot size
  for (int i = 0; i < 3; ++i) one_step(scheduler, stream.get(), a, b);
  CHECK(vg::calls("cudaHostRegister") == 1);
  CHECK(vg::calls("cudaHostAlloc") == 0);
  CHECK(scheduler.report().host_bytes == needed);
  CHECK(vg::memory_usage().pinned_bytes >= needed);
  CHECK(vg::memory_usage().pinned_bytes - needed < page());
}

TEST_CASE("pinned slab: handed to a scheduler, its slots fill it to the last") {
  const gpu device;
  const ho::pinned_slab slab(40192 + 24064);
  const ho::stream stream;
  ho::prefetch_scheduler scheduler(
      {.compute = stream.get(), .window = 65536, .host_memory = slab.region(), .observer = watched});
  first a(scheduler, 10000);
  second b(scheduler, 6001);
  CHECK_THROWS_AS(first(scheduler, 1), ho::host_capacity_error);
  for (int i = 0; i < 3; ++i) one_step(scheduler, stream.get(), a, b);
  CHECK(scheduler.report().host_bytes == slab.region().bytes);
  CHECK(vg::calls("cudaHostAlloc") == 0);
}

TEST_CASE("pinned slab: a scheduler's step that needs more than a control group leaves throws before it pins") {
  const gpu device;
  const ho::stream stream;
  const small_group group(30000);
  ho::prefetch_scheduler scheduler({.compute = stream.get(),
                                    .window = 65536,
                                    .host_pinning = {.how = ho::pinning::registered, .root = group.root()},
                                    .observer = watched});
  auto a = std::make_unique<first>(scheduler, 10000);
  second b(scheduler, 6001);
  CHECK_THROWS_AS(ho::step(scheduler), ho::host_capacity_error);
  CHECK(vg::calls("cudaHostRegister") == 0);
  CHECK(vg::calls("cudaHostAlloc") == 0);
  a.reset();
  second c(scheduler, 10);
  one_step(scheduler, stream.get(), c, b);  // what is left fits
  CHECK(vg::calls("cudaHostRegister") == 1);
}
