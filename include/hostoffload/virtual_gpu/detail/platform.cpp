#include <hostoffload/virtual_gpu/detail/platform.hpp>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

namespace hostoffload::inline v0::virtual_gpu::detail {

namespace {
constexpr std::size_t most_records = std::size_t{1} << 18;
}

std::uint64_t next_serial() noexcept {
  static std::atomic<std::uint64_t> serial{1};
  return serial++;
}

platform::platform(machine m, int devices, mode how)
    : model(std::move(m)),
      dry(how == mode::dry),
      simulation(model, devices, *this),
      detect(texts, memory),
      devices_(static_cast<std::size_t>(devices)) {
  static_cast<void>(texts.id(""));  // 0 is no name
  for (int i = 0; i < devices; ++i) {
    on(i).legacy = create_stream(i, cudaStreamDefault, 0).first;
    on(i).legacy->number = 0;
    on(i).legacy->legacy = on(i).legacy->implicit = true;
    const auto [p, handle] = pools.add();
    p->device = i;
    p->is_default = true;
    on(i).default_pool = on(i).current_pool = p;
    on(i).default_pool_handle = on(i).current_pool_handle = handle;
  }
  serial = 0;
}

platform::~platform() = default;

stream* platform::known_stream(cudaStream_t handle, const thread_state& t) {
  if (handle == nullptr || handle == cudaStreamLegacy) return on(t.device).legacy;
  if (handle != cudaStreamPerThread) {
    stream* s = streams.find(handle);
    if (s == nullptr || s->legacy) return nullptr;
    require(s->device);
    return s;
  }
  stream*& s = per_thread_[{t.id, t.device}];
  if (s == nullptr) {
    s = create_stream(t.device, cudaStreamDefault, 0).first;
    s->implicit = true;
  }
  return s;
}

stream* platform::find_stream(cudaStream_t handle, const thread_state& t) {
  stream* s = known_stream(handle, t);
  if (s == nullptr) return nullptr;
  if (s->captured_by != nullptr && !s->captured_by->valid) throw refused{cudaErrorStreamCaptureInvalidated};
  if (s->legacy) refuse_legacy(*s);
  return s;
}

std::pair<stream*, cudaStream_t> platform::create_stream(int device, unsigned flags, int priority) {
  collect_streams();
  const auto made = streams.add();
  stream& s = *made.first;
  s.number = ++serial;
  s.device = device;
  s.flags = flags;
  s.priority = priority;
  s.in_lane = take_lane(s);
  on(device).streams.push_back(&s);
  return made;
}

// A lane is free again when the host knows of all that was in it: then whatever is enqueued later is ordered behind it.
lane platform::take_lane(stream& s) {
  const auto known = [this](const free_lane& l) { return host_.after(l.number, l.tick); };
  const auto it = std::find_if(free_lanes_.begin(), free_lanes_.end(), known);
  if (it == free_lanes_.end()) return lanes_++;
  s.tick = s.done = it->tick;
  const lane l = it->number;
  free_lanes_.erase(it);
  return l;
}

void platform::destroy_stream(cudaStream_t handle) {
  auto s = streams.remove(handle);
  faults.stream_gone(*s);
  device_state& d = on(s->device);
  d.retired.join(s->clock);
  if (s->blocking()) d.retired_blocking.join(s->clock);
  destroyed_.push_back(std::move(s));
  collect_streams();
}

void platform::collect_streams() {
  std::erase_if(destroyed_, [this](const std::unique_ptr<stream>& s) {
    if (s->head != nullptr) return false;
    free_lanes_.push_back({s->in_lane, s->tick});
    std::erase(on(s->device).streams, s.get());
    return true;
  });
}

// What every operation of a stream is ordered behind: what the host knows, and for blocking streams the legacy default
// stream's rule: "the legacy stream first waits on all blocking streams, the action is queued in the legacy stream, and
// then all blocking streams wait on the legacy stream" (CUDA Runtime API, stream synchronization behavior).
void platform::order(stream& s, pending_operation& op) {
  if (s.host_version != host_version_) {
    s.clock.join(host_);
    s.host_version = host_version_;
  }
  device_state& d = on(s.device);
  if (s.legacy) {
    for (stream* other : d.streams) {
      if (other == &s || !other->blocking()) continue;
      s.clock.join(other->clock);
      simulator::block(op, other->tail);
    }
    s.clock.join(d.retired_blocking);
  } else if (s.blocking() && s.legacy_tick != d.legacy->tick) {
    s.clock.join(d.legacy->clock);
    simulator::block(op, d.legacy->tail);
    s.legacy_tick = d.legacy->tick;
  }
  s.clock.set(s.in_lane, ++s.tick);
}

pending_operation& platform::begin(stream& s, operation_kind kind, std::uint32_t name, const thread_state& t) {
  pending_operation& op = simulation.take();
  op.kind = kind;
  op.name = name;
  op.call = calls;
  op.on = &s;
  op.enqueued = t.clock;
  const std::uint64_t seen = s.legacy_tick;
  order(s, op);
  op.tick = s.tick;
  if (kind != operation_kind::record || s.legacy || s.legacy_tick != seen) s.anchor = s.tick;
  op.delay = faults.delay_of(kind, texts.text(name));
  return op;
}

void platform::enqueue(pending_operation& op) {
  const stream& s = *op.on;
  if (order_of_effects.chosen()) order_of_effects.defer(op.does, s.in_lane, op.tick, s.clock, s.device);
  simulation.enqueue(op);
}

access platform::access_of(const pending_operation& op) {
  access a;
  a.tick = op.tick;
  a.call = op.call;
  a.name = op.name;
  a.stream = static_cast<std::uint32_t>(op.on->number);
  a.in_lane = op.on->in_lane;
  a.kind = op.kind;
  return a;
}

access platform::access_of_host(std::uint32_t name) const {
  access a;
  a.call = calls;
  a.name = name;
  return a;
}

void platform::know(const vector_clock& c) {
  host_.join(c);
  ++host_version_;
  order_of_effects.finish(c);
}

bool platform::is_behind(const stream& s, const event& e) {
  const auto orders = [&e](const vector_clock& c) { return c.after(e.in_lane, e.anchor); };
  if (orders(s.clock) || orders(host_)) return true;
  const device_state& d = on(s.device);
  if (!s.legacy) return s.blocking() && orders(d.legacy->clock);
  return orders(d.retired_blocking) || std::any_of(d.streams.begin(), d.streams.end(), [&](const stream* other) {
           return other->blocking() && orders(other->clock);
         });
}

void platform::lose(int device, cudaError_t code) {
  on(device).lost = code;
  order_of_effects.forget(device);
}

void platform::wait_for(stream& s, thread_state& t) {
  const auto one = [&](stream& x) {
    simulation.advance_until([&x] { return x.done == x.tick; });
    t.clock = std::max(t.clock, x.last_end);
    know(x.clock);
  };
  if (s.legacy) {
    for (stream* other : on(s.device).streams) {
      if (other->blocking()) one(*other);
    }
    know(on(s.device).retired_blocking);
  }
  one(s);
  trim_after_synchronising();
}

bool platform::is_done(const stream& s, const thread_state& t) {
  const auto& all = on(s.device).streams;
  const auto busy = [&](const stream* x) { return x->done != x->tick || x->last_end > t.clock; };
  if (busy(&s)) return false;
  if (s.legacy && std::any_of(all.begin(), all.end(), [&](auto* x) { return x->blocking() && busy(x); })) return false;
  if (s.legacy) {
    for (const stream* x : all) {
      if (x->blocking()) know(x->clock);
    }
    know(on(s.device).retired_blocking);
  }
  know(s.clock);
  return true;
}

void platform::wait_for_device(int device, thread_state& t) {
  device_state& d = on(device);
  for (stream* s : d.streams) {
    simulation.advance_until([s] { return s->done == s->tick; });
    t.clock = std::max(t.clock, s->last_end);
    know(s->clock);
  }
  know(d.retired);
  collect_streams();
  trim_after_synchronising();
}

void platform::completed(pending_operation& op, double at) {
  if (on(op.on->device).lost == cudaSuccess) op.does.perform();
  if (op.marks != nullptr) {
    op.marks->pending = nullptr;
    op.marks->time = at;
  }
  if (op.frees != nullptr) freed(op);
  if (!recording) return;
  if (records.size() >= most_records) records.pop_front();
  records.push_back({op.kind, op.uses, op.name, op.on->device, op.on->number, op.call, op.enqueued, op.start, at,
                     op.bytes, op.flops, op.to, op.from, op.waits_for});
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
