#pragma once
// Pages of host memory, exactly as many as asked for: mapped, bound to a NUMA node, touched by several threads. Linux's
// system calls, no library; elsewhere there are none (map_host_pages is false) and callers use cudaHostAlloc. No CUDA
// here.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace hostoffload::inline v0::detail {

#if defined(__linux__)

inline constexpr bool map_host_pages = true;
inline constexpr std::size_t huge_page = std::size_t{2} << 20U;

[[nodiscard]] inline std::size_t page_size() noexcept { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

/// Bytes that the process may lock, which CUDA's driver does not count against; nothing where there is no limit.
[[nodiscard]] inline std::optional<std::size_t> locked_memory_limit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

/// Owns whole pages of private, anonymous memory. Moved-from: empty.
class host_pages {
public:
  /// At least `bytes`, less than a page more. Begins at a multiple of `alignment` (a power of two, a page or more), for
  /// which address space is mapped and given back, never memory. Throws std::bad_alloc.
  host_pages(std::size_t bytes, std::size_t alignment) {
    const std::size_t page = page_size();
    bytes_ = (bytes + page - 1) / page * page;
    const std::size_t mapped = bytes_ + alignment - page;
    void* const begin = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED) throw std::bad_alloc();
    const std::size_t before = (alignment - reinterpret_cast<std::uintptr_t>(begin) % alignment) % alignment;
    begin_ = static_cast<std::byte*>(begin) + before;
    if (before != 0) munmap(begin, before);
    if (mapped - before != bytes_) munmap(begin_ + bytes_, mapped - before - bytes_);
  }
  host_pages(host_pages&& other) noexcept
      : begin_(std::exchange(other.begin_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  host_pages& operator=(host_pages&& other) noexcept {
    host_pages(std::move(other)).swap(*this);
    return *this;
  }
  ~host_pages() {
    if (begin_ != nullptr) munmap(begin_, bytes_);
  }
  void swap(host_pages& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(bytes_, other.bytes_);
  }

  [[nodiscard]] std::byte* begin() const noexcept { return begin_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Pages not yet touched will be taken from this node while it has memory, from others then: a refusal would kill the
  /// process. Returns why it failed, empty where it did not.
  [[nodiscard]] std::string bind_to(int node) const {
    constexpr int preferred = 1;  // MPOL_PREFERRED
    constexpr std::size_t bits = 8 * sizeof(unsigned long);
    const auto at = static_cast<std::size_t>(node);
    std::vector<unsigned long> nodes(at / bits + 1);
    nodes[at / bits] = 1UL << at % bits;
    // The kernel reads one bit less than it is told.
    if (syscall(SYS_mbind, begin_, bytes_, preferred, nodes.data(), nodes.size() * bits + 1, 0U) == 0) return {};
    return std::string("mbind: ") + std::strerror(errno);
  }

  /// Share of the touched pages that lie on another node, from a sample; nothing where the system does not tell.
  [[nodiscard]] std::optional<double> share_elsewhere(int node) const {
    constexpr std::size_t most = 1024;
    const std::size_t pages = bytes_ / page_size();
    const std::size_t samples = std::min(most, pages);
    std::vector<void*> addresses(samples);
    std::vector<int> nodes(samples);
    for (std::size_t i = 0; i < samples; ++i) addresses[i] = begin_ + pages * i / samples * page_size();
    if (syscall(SYS_move_pages, 0, samples, addresses.data(), nullptr, nodes.data(), 0) != 0) return std::nullopt;
    const auto elsewhere = std::count_if(nodes.begin(), nodes.end(), [node](int n) { return n >= 0 && n != node; });
    return static_cast<double>(elsewhere) / static_cast<double>(samples);
  }

  /// Asks for transparent huge pages. Returns why there will be none, empty where there may be.
  [[nodiscard]] std::string use_huge_pages() const {
    std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string modes;
    if (std::getline(setting, modes) && modes.find("[never]") != std::string::npos) {
      return "transparent huge pages are switched off (/sys/kernel/mm/transparent_hugepage/enabled)";
    }
    if (madvise(begin_, bytes_, MADV_HUGEPAGE) == 0) return {};
    return std::string("madvise: ") + std::strerror(errno);
  }

  /// Writes to every page, so that it exists, on `threads` threads; adds to `done` what is touched.
  void touch(unsigned threads, std::atomic<std::size_t>& done) const {
    constexpr std::size_t piece = std::size_t{8} << 20U;
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      const std::size_t page = page_size();
      for (std::size_t at = next.fetch_add(piece); at < bytes_; at = next.fetch_add(piece)) {
        const std::size_t end = std::min(bytes_, at + piece);
        for (std::size_t p = at; p < end; p += page) *static_cast<volatile std::byte*>(begin_ + p) = std::byte{};
        done += end - at;
      }
    };
    std::vector<std::jthread> others;
    try {
      for (unsigned t = 1; t < threads; ++t) others.emplace_back(work);
    } catch (const std::system_error&) {  // fewer threads do
    }
    work();
  }

private:
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

#else  // nothing of this is called

inline constexpr bool map_host_pages = false;
inline constexpr std::size_t huge_page = std::size_t{2} << 20U;

[[nodiscard]] inline std::size_t page_size() noexcept { return 4096; }
[[nodiscard]] inline std::optional<std::size_t> locked_memory_limit() noexcept { return std::nullopt; }

class host_pages {
public:
  host_pages(std::size_t, std::size_t) { throw std::bad_alloc(); }
  [[nodiscard]] std::byte* begin() const noexcept { return nullptr; }
  [[nodiscard]] std::size_t bytes() const noexcept { return 0; }
  [[nodiscard]] std::string bind_to(int) const { return {}; }
  [[nodiscard]] std::optional<double> share_elsewhere(int) const { return std::nullopt; }
  [[nodiscard]] std::string use_huge_pages() const { return {}; }
  void touch(unsigned, std::atomic<std::size_t>&) const {}
};

#endif

}  // namespace hostoffload::inline v0::detail
