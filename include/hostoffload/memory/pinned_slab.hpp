#pragma once
// Pinned host memory in one piece, of exactly the size asked for, near the GPU.

#include <hostoffload/cuda/allocation.hpp>
#include <hostoffload/errors.hpp>
#include <hostoffload/memory/host_limits.hpp>
#include <hostoffload/memory/host_pages.hpp>
#include <hostoffload/memory/pinning_progress.hpp>
#include <hostoffload/memory/readable_bytes.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace hostoffload::inline v0 {

enum class pinning : std::uint8_t {
  /// cudaHostAlloc: one call, on one thread, with CUDA's choice of the NUMA node.
  allocated,
  /// Pages of the process's own, on the GPU's NUMA node and touched by several threads, then cudaHostRegister: for
  /// slabs of many GiB. Linux; elsewhere as allocated.
  registered,
};

struct pinning_options {
  pinning how = pinning::registered;

  /// Transparent huge pages where the system has them. The slab then begins at a multiple of 2 MiB; its size is as
  /// exact as without. (registered)
  bool huge_pages = false;

  /// Threads that touch the pages; 0: one per core, 16 at most. (registered)
  unsigned threads = 0;

  /// NUMA node to take the pages from, as far as it has any; none given: the one nearest to the current GPU, as CUDA
  /// states it. (registered)
  std::optional<int> node{};

  /// Warnings, and where pinning takes longer than `progress_every`, lines with what is done. Written to while the slab
  /// is built, also from another thread.
  std::ostream* log = nullptr;
  std::chrono::milliseconds progress_every{1000};

  /// Put before the paths where the memory limits of the system are read.
  std::string root{};
};

/// Owns pinned memory. Moved-from: empty, only to be assigned or destroyed.
class pinned_slab {
public:
  /// Waits until all is pinned. Before anything is mapped or CUDA is called, throws host_capacity_error where `bytes`
  /// are more than `capacity`, or than the process's control groups and the system leave it (host_limits.hpp); the
  /// limit for locked memory is only stated, since CUDA's driver pins without regard to it. A NUMA node or huge pages
  /// that cannot be had are a warning. Throws out_of_memory, cuda_error, and usage_error for no bytes or a negative
  /// node.
  explicit pinned_slab(std::size_t bytes, const pinning_options& options = {},
                       std::size_t capacity = std::numeric_limits<std::size_t>::max()) {
    if (bytes == 0) throw usage_error("a pinned slab has at least one byte");
    if (options.node && *options.node < 0) {
      throw usage_error("NUMA node " + std::to_string(*options.node) +
                        " for a pinned slab: nodes are numbered from 0; "
                        "leave `node` out for the one nearest to the GPU");
    }
    check_limits(bytes, capacity, options.root);
    detail::pinning_progress progress(options.log, options.progress_every, bytes);
    if (options.how == pinning::registered && detail::map_host_pages) {
      map(bytes, options, progress);
    } else {
      allocated_.emplace(bytes);
      region_ = allocated_->region();
    }
    progress.succeeded();
  }
  pinned_slab(pinned_slab&& other) noexcept : region_() { swap(other); }
  pinned_slab& operator=(pinned_slab&& other) noexcept {
    pinned_slab(std::move(other)).swap(*this);
    return *this;
  }
  /// May wait for the device: no work on the memory may be in flight when it goes.
  ~pinned_slab() {
    if (pages_) detail::ignore(cudaHostUnregister(pages_->begin()));
  }

  void swap(pinned_slab& other) noexcept {
    std::swap(region_, other.region_);
    std::swap(allocated_, other.allocated_);
    std::swap(pages_, other.pages_);
    std::swap(node_, other.node_);
    std::swap(warnings_, other.warnings_);
  }

  /// All bytes asked for, aligned to a page. Give it to scheduler_options::host_memory.
  [[nodiscard]] memory_region region() const noexcept { return region_; }
  /// Bytes really taken: less than a page more.
  [[nodiscard]] std::size_t pinned_bytes() const noexcept { return pages_ ? pages_->bytes() : region_.bytes; }
  /// The node that the pages were asked from; nothing where the choice was the system's or CUDA's.
  [[nodiscard]] std::optional<int> node() const noexcept { return node_; }
  /// What could not be had, one line each.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }

private:
  static void check_limits(std::size_t bytes, std::size_t capacity, const std::string& root) {
    if (bytes > capacity) {
      throw host_capacity_error("a pinned slab of " + std::to_string(bytes) + " bytes is more than the capacity of " +
                                    std::to_string(capacity) + " bytes that was set: raise it, or ask for less",
                                bytes, capacity);
    }
    const std::optional<host_limit> tightest = tightest_host_limit(root);
    if (!tightest || bytes <= tightest->left()) return;
    std::string text = "a pinned slab of " + std::to_string(bytes) + " bytes (" + detail::readable_bytes(bytes) +
                       ") does not fit into the host memory left: " + tightest->where + " allows " +
                       std::to_string(tightest->limit) + " bytes, of which " + std::to_string(tightest->used) +
                       " are used (" + std::to_string(tightest->reclaimable) + " of cache not counted) and " +
                       std::to_string(tightest->left()) + " left";
    if (const std::optional<std::size_t> locked = detail::locked_memory_limit()) {
      text += "; the limit for locked memory, which does not bound this, is " + std::to_string(*locked) + " bytes";
    }
    throw host_capacity_error(text + ": ask for less, or raise that limit", bytes, tightest->left());
  }

  void warn(detail::pinning_progress& progress, const std::string& text) {
    warnings_.push_back(text);
    progress.say("hostoffload: warning: " + text);
  }

  void map(std::size_t bytes, const pinning_options& options, detail::pinning_progress& progress) {
    try {
      pages_.emplace(bytes, options.huge_pages ? detail::huge_page : detail::page_size());
    } catch (const std::bad_alloc&) {
      throw out_of_memory("mmap: " + std::to_string(bytes) + " bytes of host memory were requested",
                          cudaErrorMemoryAllocation, "mmap", bytes);
    }
    const detail::host_pages& pages = *pages_;
    if (options.huge_pages) {
      const std::string problem = pages.use_huge_pages();
      if (!problem.empty()) warn(progress, "pinned memory has no huge pages: " + problem);
    }
    choose_node(options.node, progress);
    if (node_) {
      const std::string problem = pages.bind_to(*node_);
      if (!problem.empty()) {
        warn(progress,
             "pinned memory is not bound to NUMA node " + std::to_string(*node_) + ", copies may be slow: " + problem);
      }
    }
    pages.touch(threads(options.threads), progress.touched);
    const std::optional<double> elsewhere = node_ ? pages.share_elsewhere(*node_) : std::nullopt;
    if (elsewhere && *elsewhere > 0) {
      warn(progress, std::to_string(static_cast<int>(std::ceil(*elsewhere * 100))) +
                         " % of the pinned memory is not on NUMA node " + std::to_string(*node_) +
                         ", which is full or could not be chosen: copies may be slow");
    }
    detail::check_allocation(cudaHostRegister(pages.begin(), pages.bytes(), cudaHostRegisterPortable),
                             "cudaHostRegister", pages.bytes());
    region_ = {pages.begin(), bytes};
  }

  void choose_node(std::optional<int> wanted, detail::pinning_progress& progress) {
    node_ = wanted;
    if (node_) return;
    int device = 0;
    int nearest = -1;
    detail::check(cudaGetDevice(&device), "cudaGetDevice");
    const cudaError_t code = cudaDeviceGetAttribute(&nearest, cudaDevAttrHostNumaId, device);
    if (code != cudaSuccess) {
      detail::ignore(code);
      warn(progress, std::string("the GPU's NUMA node is unknown, copies may be slow: cudaDeviceGetAttribute: ") +
                         cudaGetErrorName(code));
    } else if (nearest >= 0) {
      node_ = nearest;
    }
  }

  [[nodiscard]] static unsigned threads(unsigned wanted) noexcept {
    constexpr unsigned most = 16;
    return wanted != 0 ? wanted : std::clamp(std::thread::hardware_concurrency(), 1U, most);
  }

  memory_region region_;
  std::optional<pinned_allocation> allocated_;
  std::optional<detail::host_pages> pages_;
  std::optional<int> node_;
  std::vector<std::string> warnings_;
};

static_assert(std::is_nothrow_move_constructible_v<pinned_slab> && !std::is_copy_constructible_v<pinned_slab>);

}  // namespace hostoffload::inline v0
