#include <hostoffload/virtual_gpu/detail/allocation.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

// The sanitizer's own header, and not its functions by hand: they exist only when it is on.
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#endif

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t most_fallow = 4096;

std::size_t pages(std::size_t bytes) { return (std::max(bytes, std::size_t{1}) + page - 1) / page * page; }

// The sanitizer keeps state per 8 bytes; what is poisoned is rounded outward. Allocations are aligned to 256.
void set_poison([[maybe_unused]] const std::byte* begin, [[maybe_unused]] std::size_t bytes, [[maybe_unused]] bool on) {
#ifdef ASAN_POISON_MEMORY_REGION
  if (on) {
    const std::size_t lead = reinterpret_cast<std::uintptr_t>(begin) % 8;
    ASAN_POISON_MEMORY_REGION(begin - lead, (lead + bytes + 7) / 8 * 8);
  } else {
    ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
  }
#endif
}

}  // namespace

address_space::~address_space() {
  while (!mapped_.empty()) unmap(mapped_.begin()->first);
  for (const auto& [begin, m] : fallow_) {
    if (m.poisoned) set_poison(begin, m.bytes, false);
    munmap(begin, m.bytes);
  }
}

std::byte* address_space::map(std::size_t bytes, access_rights rights) {
  if (bytes > (std::size_t{1} << 46)) return nullptr;
  bytes = pages(bytes);
  const int protection = rights == access_rights::none ? PROT_NONE : PROT_READ | PROT_WRITE;
  void* at = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(at);
  const mapping m{bytes, rights == access_rights::poisoned && address_sanitizer};
  if (m.poisoned) set_poison(begin, bytes, true);
  mapped_.emplace(begin, m);
  return begin;
}

void address_space::open(std::byte* begin, std::size_t bytes) {
  const std::size_t lead = reinterpret_cast<std::uintptr_t>(begin) % page;
  if (mprotect(begin - lead, lead + bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
}

// Gives the pages back and leaves the addresses inaccessible until enough others have followed.
void address_space::unmap(std::byte* begin) {
  const auto it = mapped_.find(begin);
  const mapping m = it->second;
  mapped_.erase(it);
  static_cast<void>(mmap(begin, m.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
  fallow_.emplace_back(begin, m);
  if (fallow_.size() <= most_fallow) return;
  const auto [oldest, old] = fallow_.front();
  fallow_.pop_front();
  if (old.poisoned) set_poison(oldest, old.bytes, false);
  munmap(oldest, old.bytes);
}

allocation* allocation_table::find(const void* at) {
  const auto* byte = static_cast<const std::byte*>(at);
  auto it = live_.upper_bound(byte);
  if (it == live_.begin()) return nullptr;
  allocation& a = std::prev(it)->second;
  return byte < a.begin + a.bytes ? &a : nullptr;
}

const former_allocation* allocation_table::find_former(const void* at) const {
  const auto* byte = static_cast<const std::byte*>(at);
  auto it = former_.upper_bound(byte);
  if (it == former_.begin()) return nullptr;
  --it;
  return byte < it->first + it->second.bytes ? &it->second : nullptr;
}

bool allocation_table::overlaps(const std::byte* begin, std::size_t bytes) const {
  const auto it = live_.upper_bound(begin);
  if (it != live_.end() && static_cast<std::size_t>(it->first - begin) < bytes) return true;
  if (it == live_.begin()) return false;
  const auto& before = *std::prev(it);
  return static_cast<std::size_t>(begin - before.first) < before.second.bytes;
}

allocation& allocation_table::add(allocation a) {
  // Whoever had these addresses before is forgotten.
  for (auto it = former_.upper_bound(a.begin); it != former_.begin();) {
    --it;
    if (it->first + it->second.bytes <= a.begin) break;
    it = former_.erase(it);
  }
  former_.erase(former_.lower_bound(a.begin), former_.lower_bound(a.begin + a.bytes));
  const auto* begin = a.begin;
  return live_.insert_or_assign(begin, std::move(a)).first->second;
}

void allocation_table::remove(allocation& a, std::uint64_t call) {
  if (call == 0) {
    live_.erase(a.begin);
    return;
  }
  if (former_.insert_or_assign(a.begin, former_allocation{a.bytes, a.call, call, a.function}).second) {
    former_order_.push_back(a.begin);
  }
  if (former_order_.size() > remembered) {
    former_.erase(former_order_.front());
    former_order_.pop_front();
  }
  live_.erase(a.begin);
}

unpoisoned::unpoisoned(const std::vector<byte_range>& ranges) : ranges_(ranges) {
  for (const auto& r : ranges_) set_poison(r.begin, r.bytes, false);
}

unpoisoned::~unpoisoned() {
  for (const auto& r : ranges_) set_poison(r.begin, r.bytes, true);
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
