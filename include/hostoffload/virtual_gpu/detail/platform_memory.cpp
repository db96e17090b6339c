// Device memory, pools and pinned memory.

#include <hostoffload/virtual_gpu/detail/platform.hpp>

#include <algorithm>
#include <utility>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

void raise(std::size_t& used, std::size_t& peak, std::size_t by) {
  used += by;
  peak = std::max(peak, used);
}

bool idle(const memory_block& b) { return !b.used && b.frees_pending == 0; }

}  // namespace

// When the device is full, what pools keep in reserve goes first.
std::byte* platform::map_on(int device, std::size_t bytes) {
  device_state& d = on(device);
  const auto fits = [&] { return static_cast<double>(d.used + bytes) <= model.device_memory.value; };
  if (!fits())
    pools.each([&](pool& p, cudaMemPool_t) {
      if (p.device == device) trim(p, 0);
    });
  if (!fits()) return nullptr;
  std::byte* at = space_.map(bytes, dry ? access_rights::none : access_rights::poisoned);
  if (at != nullptr) raise(d.used, d.peak, bytes);
  return at;
}

allocation& platform::add_device_memory(std::byte* begin, std::size_t bytes, std::uint32_t function, int device,
                                        const access& born) {
  allocation a;
  a.begin = begin;
  a.bytes = bytes;
  a.device = device;
  a.call = calls;
  a.function = function;
  a.pieces = shadow(bytes, false, born);
  return memory.add(std::move(a));
}

std::byte* platform::allocate(std::size_t bytes, std::uint32_t function, int device) {
  std::byte* at = map_on(device, rounded(bytes));
  if (at != nullptr) add_device_memory(at, bytes, function, device, access{});
  return at;
}

// The smallest idle block that `s` may use. Larger than twice the size is too good for it.
memory_block* platform::reusable(pool& from, std::size_t bytes, const stream& s, bool by_dependency) {
  memory_block* best = nullptr;
  for (const auto& b : from.blocks) {
    if (b->used || b->bytes < bytes || b->bytes / 2 > bytes) continue;
    if (best != nullptr && best->bytes <= b->bytes) continue;
    const bool host_knows = host_.after(b->freed_lane, b->freed_tick);
    const bool ordered =
        s.clock.after(b->freed_lane, b->freed_tick) && (from.follow_events || b->freed_lane == s.in_lane);
    const bool over = from.opportunistic && b->frees_pending == 0;
    if (by_dependency ? from.internal_dependencies : host_knows || ordered || over) best = b.get();
  }
  return best;
}

std::byte* platform::allocate_from(pool& from, std::size_t bytes, stream& s, std::uint32_t function,
                                   const thread_state& t) {
  const std::size_t block_bytes = rounded(bytes);
  memory_block* b = reusable(from, block_bytes, s, false);
  if (b == nullptr && (from.max_bytes == 0 || from.reserved + block_bytes <= from.max_bytes)) {
    if (std::byte* at = map_on(from.device, block_bytes)) {
      from.blocks.push_back(std::make_unique<memory_block>());
      b = from.blocks.back().get();
      b->begin = at;
      b->bytes = block_bytes;
      b->device = from.device;
      b->of = &from;
      raise(from.reserved, from.reserved_high, block_bytes);
    }
  }
  if (b == nullptr) b = reusable(from, block_bytes, s, true);
  if (b == nullptr) return nullptr;

  // Whichever way the block became free, the allocator answers for the order behind its last free.
  s.clock.join(b->freed);
  pending_operation& op = begin(s, operation_kind::allocate, function, t);
  simulator::block(op, b->freeing);
  op.bytes = static_cast<double>(bytes);
  b->used = true;
  raise(from.used, from.used_high, b->bytes);
  add_device_memory(b->begin, bytes, function, from.device, access_of(op)).block = b;
  enqueue(op);
  return b->begin;
}

void platform::free(allocation& a) {
  if (memory_block* b = a.block) {
    memory.remove(a, calls);
    b->used = false;
    b->of->used -= b->bytes;
    b->freed = host_;
    b->freed_lane = host_lane;
    b->freed_tick = 0;
    b->freeing = nullptr;
    if (b->of->destroyed && idle(*b)) drop(*b);
    return;
  }
  on(a.device).used -= rounded(a.bytes);
  std::byte* begin = a.begin;
  memory.remove(a, calls);
  space_.unmap(begin);
}

void platform::free_in_order(allocation& a, stream& s, std::uint32_t function, const thread_state& t) {
  pending_operation& op = begin(s, operation_kind::free, function, t);
  op.bytes = static_cast<double>(a.bytes);
  detect.free(access_of(op), s.clock, a);
  memory_block* b = a.block;
  if (b == nullptr) {
    loose_blocks_.push_back(std::make_unique<memory_block>());
    b = loose_blocks_.back().get();
    b->begin = a.begin;
    b->bytes = rounded(a.bytes);
    b->device = a.device;
  } else {
    b->of->used -= b->bytes;
  }
  memory.remove(a, calls);
  b->used = false;
  b->freed = s.clock;
  b->freed_lane = s.in_lane;
  b->freed_tick = s.tick;
  b->freeing = &op;
  ++b->frees_pending;
  op.frees = b;
  enqueue(op);
}

void platform::freed(pending_operation& op) {
  memory_block& b = *op.frees;
  if (b.freeing == &op) b.freeing = nullptr;
  --b.frees_pending;
  if (idle(b) && (b.of == nullptr || b.of->destroyed)) drop(b);
}

// What the program ordered before the free may still have to take effect; where it ordered nothing, all of it may.
void platform::drop(memory_block& b) {
  order_of_effects.finish(b.freed);
  if (!detect.silent()) order_of_effects.finish_all();
  on(b.device).used -= b.bytes;
  space_.unmap(b.begin);
  const auto is_b = [&b](const std::unique_ptr<memory_block>& x) { return x.get() == &b; };
  pool* p = b.of;
  if (p == nullptr) {
    std::erase_if(loose_blocks_, is_b);
    return;
  }
  p->reserved -= b.bytes;
  std::erase_if(p->blocks, is_b);
  if (p->destroyed && p->blocks.empty()) {
    std::erase_if(destroyed_pools_, [p](const std::unique_ptr<pool>& x) { return x.get() == p; });
  }
}

void platform::trim(pool& p, std::size_t keep) {
  for (std::size_t i = p.blocks.size(); i-- > 0 && p.reserved > keep;) {
    if (idle(*p.blocks[i])) drop(*p.blocks[i]);
  }
}

void platform::trim_after_synchronising() {
  pools.each([this](pool& p, cudaMemPool_t) { trim(p, p.release_threshold); });
}

void platform::destroy_pool(cudaMemPool_t handle) {
  auto p = pools.remove(handle);
  p->destroyed = true;
  for (auto& d : devices_) {
    if (d.current_pool != p.get()) continue;
    d.current_pool = d.default_pool;
    d.current_pool_handle = d.default_pool_handle;
  }
  trim(*p, 0);
  if (!p->blocks.empty()) destroyed_pools_.push_back(std::move(p));
}

void platform::keep_storage(allocation& a, std::size_t begin, std::size_t bytes) {
  if (!dry || bytes == 0) return;
  if (a.on_device()) address_space::open(a.begin + begin, bytes);
  a.kept.emplace_back(begin, begin + bytes);
  std::sort(a.kept.begin(), a.kept.end());
}

bool platform::stored(const allocation& a, std::size_t begin, std::size_t bytes) const {
  if (!dry) return true;
  const std::size_t end = begin + bytes;
  for (const auto& [from, to] : a.kept) {
    if (from <= begin) begin = std::max(begin, to);
  }
  return begin >= end;
}

bool platform::pin(std::size_t bytes) {
  const int hosts = (device_count() - 1) / model.devices_per_host + 1;
  if (static_cast<double>(pinned_used + bytes) > model.host_memory.value * hosts) return false;
  raise(pinned_used, pinned_peak, bytes);
  return true;
}

std::byte* platform::allocate_pinned(std::size_t bytes, std::uint32_t function, unsigned flags, int device) {
  if (!pin(bytes)) return nullptr;
  std::byte* at = space_.map(bytes, access_rights::all);
  if (at == nullptr) {
    pinned_used -= bytes;
    return nullptr;
  }
  allocation a;
  a.begin = at;
  a.bytes = bytes;
  a.kind = memory_kind::pinned;
  a.device = device;
  a.flags = flags;
  a.call = calls;
  a.function = function;
  a.pieces = shadow(bytes, true, access{});  // the host may write at any time without telling
  memory.add(std::move(a));
  return at;
}

void platform::free_pinned(allocation& a) {
  order_of_effects.finish_all();
  pinned_used -= a.bytes;
  std::byte* begin = a.begin;
  memory.remove(a, calls);
  space_.unmap(begin);
}

// Resources of the device and what is pinned for it. Its default pool stays, empty.
void platform::reset_device(int device, thread_state& t) {
  wait_for_device(device, t);
  forget_graphs(device);
  std::vector<cudaStream_t> old_streams;
  streams.each([&](stream& s, cudaStream_t handle) {
    if (s.device == device && !s.implicit) old_streams.push_back(handle);
  });
  for (auto* handle : old_streams) destroy_stream(handle);
  std::vector<cudaEvent_t> old_events;
  events.each([&](event& e, cudaEvent_t handle) {
    if (e.device == device) old_events.push_back(handle);
  });
  for (auto* handle : old_events) static_cast<void>(events.remove(handle));
  std::vector<std::byte*> old_memory;
  for (const auto& [begin, a] : memory.all()) {
    if (a.device == device) old_memory.push_back(a.begin);
  }
  for (auto* begin : old_memory) {
    allocation& a = *memory.find(begin);
    switch (a.kind) {
      case memory_kind::device:
        free(a);
        break;
      case memory_kind::pinned:
        free_pinned(a);
        break;
      case memory_kind::registered:
        pinned_used -= a.bytes;
        memory.remove(a, 0);
        break;
    }
  }
  std::vector<cudaMemPool_t> old_pools;
  pools.each([&](pool& p, cudaMemPool_t handle) {
    if (p.device == device && !p.is_default) old_pools.push_back(handle);
  });
  for (auto* handle : old_pools) destroy_pool(handle);
  trim(*on(device).default_pool, 0);
  on(device).lost = cudaSuccess;
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
