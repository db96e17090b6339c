// What control groups leave a process, read from made-up trees.

#include "catch.hpp"

#include <hostoffload/memory/host_limits.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

namespace ho = hostoffload;

namespace {

/// A folder that stands for "/", removed at the end.
class tree {
public:
  tree()
      : root_(std::filesystem::temp_directory_path() / ("hostoffload_tree_" + std::to_string(getpid()) + "_" +
                                                        std::to_string(reinterpret_cast<std::uintptr_t>(this)))) {
    std::filesystem::create_directories(root_);
  }
  tree(const tree&) = delete;
  tree& operator=(const tree&) = delete;
  ~tree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  tree& file(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full, std::ios::binary) << text;
    return *this;
  }
  /// A group of version 2 with its limit and what it uses.
  tree& group(const std::string& path, const std::string& limit, const std::string& usage,
              const std::string& statistics = "") {
    const std::string folder = "sys/fs/cgroup/" + path + "/";
    return file(folder + "memory.max", limit)
        .file(folder + "memory.current", usage)
        .file(folder + "memory.stat", statistics);
  }
  tree& group_v1(const std::string& path, const std::string& limit, const std::string& usage,
                 const std::string& statistics = "") {
    const std::string folder = "sys/fs/cgroup/memory/" + path + "/";
    return file(folder + "memory.limit_in_bytes", limit)
        .file(folder + "memory.usage_in_bytes", usage)
        .file(folder + "memory.stat", statistics);
  }
  [[nodiscard]] std::string root() const { return root_.string(); }
  [[nodiscard]] std::optional<ho::host_limit> tightest() const { return ho::tightest_host_limit(root()); }

private:
  std::filesystem::path root_;
};

/// What a limit says, without the folder of the test.
void check(const tree& t, const std::string& where, std::size_t limit, std::size_t used, std::size_t reclaimable) {
  const std::optional<ho::host_limit> found = t.tightest();
  REQUIRE(found.has_value());
  CHECK(found->where == t.root() + where);
  CHECK(found->limit == limit);
  CHECK(found->used == used);
  CHECK(found->reclaimable == reclaimable);
  CHECK(found->left() == limit - used);
}

}  // namespace

TEST_CASE("host limits: version 2, the ancestor that leaves least") {
  tree t;
  t.file("proc/self/cgroup", "0::/jobs/42/step\n")
      .group("jobs/42/step", "max\n", "500\n")
      .group("jobs/42", "8000\n", "3000\n", "anon 1000\nactive_file 700\ninactive_file 900\nfile 1700\n")
      .group("jobs", "6000\n", "3100\n", "inactive_file 0\nactive_file 0\n");
  check(t, "/sys/fs/cgroup/jobs/memory.max", 6000, 3100, 0);

  t.group("jobs", "9000\n", "3100\n");  // now the group below leaves less: 8000 − (3000 − 1600)
  check(t, "/sys/fs/cgroup/jobs/memory.max", 9000, 3100, 0);
  t.group("jobs", "max\n", "3100\n");
  check(t, "/sys/fs/cgroup/jobs/42/memory.max", 8000, 1400, 1600);
  t.group("jobs/42/step", "700\n", "650\n");
  check(t, "/sys/fs/cgroup/jobs/42/step/memory.max", 700, 650, 0);
}

TEST_CASE("host limits: version 1, with the cache of descendants, and the number that means none") {
  tree t;
  t.file("proc/self/cgroup", "7:cpu,cpuacct:/other\n4:memory:/job/a\n1:name=systemd:/\n")
      .group_v1("job/a", "9223372036854771712\n", "10\n")
      .group_v1("job", "1000000\n", "400000\n",
                "cache 5\ninactive_file 1\nactive_file 2\ntotal_inactive_file 100000\ntotal_active_file 50000\n")
      .group_v1("", "9223372036854771712\n", "70\n")
      .group("other", "1\n", "1\n");  // of another controller
  check(t, "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", 1000000, 250000, 150000);
}

TEST_CASE("host limits: both versions mounted at once") {
  tree t;
  t.file("proc/self/cgroup", "4:memory,hugetlb:/a\n0::/b\n")
      .group_v1("a", "5000\n", "1000\n")
      .file("sys/fs/cgroup/unified/cgroup.controllers", "")
      .file("sys/fs/cgroup/unified/b/memory.max", "3000\n")
      .file("sys/fs/cgroup/unified/b/memory.current", "500\n");
  check(t, "/sys/fs/cgroup/unified/b/memory.max", 3000, 500, 0);
  t.file("sys/fs/cgroup/unified/b/memory.max", "max\n");
  check(t, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes", 5000, 1000, 0);
}

TEST_CASE("host limits: a container sees its own group as the root of the mount") {
  tree t;
  t.file("proc/self/cgroup", "0::/kubepods/pod7/c1\n").group("", "4096\n", "96\n");
  check(t, "/sys/fs/cgroup/memory.max", 4096, 96, 0);

  tree above;  // the process lives outside of its namespace's root
  above.file("proc/self/cgroup", "0::/../other\n").group("", "2048\n", "48\n");
  check(above, "/sys/fs/cgroup/memory.max", 2048, 48, 0);
}

TEST_CASE("host limits: the memory that is available at all is a limit too") {
  tree t;
  t.file("proc/self/cgroup", "0::/a\n")
      .group("a", "8000000\n", "0\n")
      .file("proc/meminfo",
            "MemTotal:       4000 kB\nMemFree:  10 kB\nMemAvailableOther: 1 kB\nMemAvailable:   3000 kB\n");
  check(t, "/proc/meminfo", 4000 * 1024, 1000 * 1024, 0);
}

TEST_CASE("host limits: more used than allowed leaves nothing") {
  tree t;
  t.file("proc/self/cgroup", "0::/a\n").group("a", "100\n", "250\n", "inactive_file 50\n");
  REQUIRE(t.tightest().has_value());
  CHECK(t.tightest()->used == 200);
  CHECK(t.tightest()->left() == 0);
  t.group("a", "100\n", "30\n", "inactive_file 50\nactive_file 1\n");  // read at other times: the cache was larger then
  CHECK(t.tightest()->used == 0);
  CHECK(t.tightest()->left() == 100);
}

TEST_CASE("host limits: what is missing or no number is left out") {
  const tree empty;
  CHECK_FALSE(empty.tightest().has_value());

  for (const char* const limit :
       {"", "\n", "max", "none\n", "12abc\n", "-5\n", "0x100\n", "99999999999999999999999\n", "  7\n"}) {
    INFO("limit \"" << limit << '"');
    tree t;
    t.file("proc/self/cgroup", "0::/a\n").group("a", limit, "1\n");
    CHECK_FALSE(t.tightest().has_value());
  }
  for (const char* const groups :
       {"", "\n", "0", "0:", "0::", "0::a\n", "nonsense\n", ":::\n", "4:memory\n", "4:memoryx:/a\n"}) {
    INFO("groups \"" << groups << '"');
    tree t;
    t.file("proc/self/cgroup", groups).group("a", "5\n", "1\n").group_v1("a", "5\n", "1\n");
    CHECK_FALSE(t.tightest().has_value());
  }
  tree no_usage;
  no_usage.file("proc/self/cgroup", "0::/a\n")
      .file("sys/fs/cgroup/a/memory.max", "900\n")
      .file("sys/fs/cgroup/a/memory.stat", "inactive_file many\nactive_file\n");
  check(no_usage, "/sys/fs/cgroup/a/memory.max", 900, 0, 0);
}
