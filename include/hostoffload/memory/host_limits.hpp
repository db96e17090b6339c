#pragma once
// How much memory of the host this process may still take: what its control groups and the system leave it. No CUDA
// here.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hostoffload::inline v0 {

/// One bound on the memory of this process, and what counts against it already. Bytes.
struct host_limit {
  std::string where;  ///< the file that states it
  std::size_t limit = 0;
  std::size_t used = 0;         ///< page cache that the kernel can reclaim not counted
  std::size_t reclaimable = 0;  ///< that page cache

  [[nodiscard]] std::size_t left() const noexcept { return limit - std::min(limit, used); }
};

namespace detail {

/// The number at the start of a text; nothing where there is none, or it is too large.
[[nodiscard]] inline std::optional<std::size_t> leading_number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  if (end != text.data() + text.size() && *end != ' ' && *end != '\n') return std::nullopt;
  return value;
}

[[nodiscard]] inline std::optional<std::size_t> number_in(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return leading_number(line);
}

/// The number behind `key` and blanks, at the start of a line ("inactive_file 4096", "MemAvailable:   4 kB").
[[nodiscard]] inline std::optional<std::size_t> number_behind(const std::string& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::string_view rest = line;
    if (!rest.starts_with(key)) continue;
    rest.remove_prefix(key.size());
    const std::size_t digits = rest.find_first_not_of(' ');
    if (digits == 0 || digits == std::string_view::npos) continue;  // a longer key, or none
    return leading_number(rest.substr(digits));
  }
  return std::nullopt;
}

/// The names that the two versions of control groups have for the same numbers. `total_` in version 1: with
/// descendants, as the usage is.
struct cgroup_files {
  std::string_view limit, usage, active, inactive;
};
inline constexpr cgroup_files cgroup_v1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file",
                                        "total_inactive_file"};
inline constexpr cgroup_files cgroup_v2{"memory.max", "memory.current", "active_file", "inactive_file"};

/// `group` ends in "/". Nothing where the group has no limit ("max"; version 1 writes the largest number of pages) or
/// states none.
[[nodiscard]] inline std::optional<host_limit> limit_of_group(const std::string& group, const cgroup_files& names) {
  constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max() / 2 / 65536 * 65536;  // of the largest pages
  const std::optional<std::size_t> limit = number_in(group + std::string(names.limit));
  if (!limit || *limit >= no_limit) return std::nullopt;
  const std::size_t usage = number_in(group + std::string(names.usage)).value_or(0);
  const std::string statistics = group + "memory.stat";
  const std::size_t cache =
      number_behind(statistics, names.active).value_or(0) + number_behind(statistics, names.inactive).value_or(0);
  return host_limit{group + std::string(names.limit), *limit, usage - std::min(usage, cache), std::min(usage, cache)};
}

/// The group and its ancestors, as far as they are mounted: a container sees its own group as the root, under whatever
/// path /proc states.
inline void add_groups(const std::string& mount, std::string path, const cgroup_files& names,
                       std::vector<host_limit>& limits) {
  while (true) {
    while (path.ends_with('/')) path.pop_back();
    if (std::optional<host_limit> found = limit_of_group(mount + path + "/", names)) {
      limits.push_back(*std::move(found));
    }
    if (path.empty()) return;
    path.resize(path.rfind('/'));
  }
}

}  // namespace detail

/// Every memory limit over this process that the system states: of its control group and all ancestors (version 1 and
/// 2, and both mounted at once), and the memory that is available at all. What cannot be read, or is no number, is left
/// out. `root` is put before every path.
[[nodiscard]] inline std::vector<host_limit> host_limits(const std::string& root = "") {
  std::vector<host_limit> limits;
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // id:controllers:path
    const std::size_t controllers = line.find(':');
    if (controllers == std::string::npos) continue;
    const std::size_t path = line.find(':', controllers + 1);
    if (path == std::string::npos || path + 1 >= line.size() || line[path + 1] != '/') continue;
    const std::string listed = ',' + line.substr(controllers + 1, path - controllers - 1) + ',';
    if (listed == ",,") {
      const std::string unified = mounts + "/unified";  // beside version 1
      const bool beside = std::ifstream(unified + "/cgroup.controllers").good();
      detail::add_groups(beside ? unified : mounts, line.substr(path + 1), detail::cgroup_v2, limits);
    } else if (listed.find(",memory,") != std::string::npos) {
      detail::add_groups(mounts + "/memory", line.substr(path + 1), detail::cgroup_v1, limits);
    }
  }
  const std::string system = root + "/proc/meminfo";
  const std::optional<std::size_t> total = detail::number_behind(system, "MemTotal:");
  const std::optional<std::size_t> available = detail::number_behind(system, "MemAvailable:");
  if (total && available) {
    const std::size_t used = *total - std::min(*total, *available);
    limits.push_back({system, *total * 1024, used * 1024, 0});
  }
  return limits;
}

/// The one that leaves the least; nothing where the system states none.
[[nodiscard]] inline std::optional<host_limit> tightest_host_limit(const std::string& root = "") {
  const std::vector<host_limit> all = host_limits(root);
  const auto least = std::min_element(all.begin(), all.end(),
                                      [](const host_limit& a, const host_limit& b) { return a.left() < b.left(); });
  return least == all.end() ? std::nullopt : std::optional<host_limit>(*least);
}

}  // namespace hostoffload::inline v0
