#include <hostoffload/virtual_gpu/control.hpp>

#include <algorithm>
#include <stdexcept>

#include <hostoffload/virtual_gpu/detail/call.hpp>

namespace hostoffload::inline v0::virtual_gpu {
namespace {

using detail::session;

void require(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(std::string("virtual_gpu::reset: ") + what);
}

// Calls `visit(allocation, begin, end)` for the known memory among the bytes.
template <typename Visitor>
void each_known(detail::platform& gpu, const void* begin, std::size_t bytes, Visitor visit) {
  detail::allocation* a = gpu.memory.find(begin);
  if (a == nullptr || bytes == 0) return;
  const auto first = static_cast<std::size_t>(static_cast<const std::byte*>(begin) - a->begin);
  visit(*a, first, first + std::min(bytes, a->bytes - first));
}

finding leak_of(const std::string& what) {
  finding f;
  f.kind = finding_kind::leak;
  f.second = what;
  f.message = "leak: " + what + " is still alive";
  return f;
}

}  // namespace

void reset(machine m, int devices, mode how) {
  require(devices > 0 && m.devices_per_host > 0, "a machine has at least one device");
  for (const auto* rate : {&m.device_memory, &m.host_memory, &m.hbm, &m.peer, &m.link.to_device, &m.link.to_host,
                           &m.link.both, &m.link.all_to_device, &m.link.all_to_host, &m.link.all_both,
                           &m.host.pin_fresh, &m.host.pin_touched, &m.host.pageable}) {
    require(rate->value > 0, "capacities and rates must be positive");
  }
  for (const auto* latency : {&m.kernel_latency, &m.wait_latency, &m.host_function, &m.link.first_latency,
                              &m.link.queued_latency, &m.link.batched_latency}) {
    require(latency->value >= 0, "latencies must not be negative");
  }
  require(!detail::this_thread().inside, "not from inside a kernel");
  detail::replace_machine(std::move(m), devices, how);
}

void keep_storage(const void* begin, std::size_t bytes) {
  const session s;
  detail::allocation* a = s.machine().memory.find(begin);
  const auto first = a == nullptr ? 0 : static_cast<std::size_t>(static_cast<const std::byte*>(begin) - a->begin);
  if (a == nullptr || bytes > a->bytes - first) {
    throw std::invalid_argument("virtual_gpu::keep_storage: the bytes are in no allocation");
  }
  s.machine().keep_storage(*a, first, bytes);
}

machine current_machine() { return session().machine().model; }

double now() { return session().thread().clock; }

void host_works(double seconds) {
  if (!(seconds >= 0)) throw std::invalid_argument("virtual_gpu::host_works: time does not run backwards");
  session().spend(seconds);
}

bool inside() noexcept { return detail::this_thread().inside; }

std::string_view to_string(operation_kind kind) noexcept {
  switch (kind) {
    case operation_kind::kernel:
      return "kernel";
    case operation_kind::copy_to_device:
      return "copy to device";
    case operation_kind::copy_to_host:
      return "copy to host";
    case operation_kind::copy_on_device:
      return "copy on device";
    case operation_kind::set:
      return "memset";
    case operation_kind::record:
      return "event record";
    case operation_kind::wait:
      return "event wait";
    case operation_kind::allocate:
      return "allocation";
    case operation_kind::free:
      return "free";
    case operation_kind::host_function:
      return "host function";
    case operation_kind::graph:
      return "graph launch";
  }
  return "?";
}

std::string_view to_string(resource r) noexcept {
  switch (r) {
    case resource::none:
      return "none";
    case resource::compute:
      return "compute";
    case resource::copy_engine_to_device:
      return "copy engine to device";
    case resource::copy_engine_to_host:
      return "copy engine to host";
    case resource::memory:
      return "memory";
  }
  return "?";
}

std::string_view to_string(finding_kind kind) noexcept {
  switch (kind) {
    case finding_kind::race:
      return "race";
    case finding_kind::use_after_free:
      return "use after free";
    case finding_kind::out_of_bounds:
      return "out of bounds";
    case finding_kind::uninitialised_read:
      return "uninitialised read";
    case finding_kind::host_access_in_flight:
      return "host access in flight";
    case finding_kind::never_recorded_wait:
      return "wait for an event that was never recorded";
    case finding_kind::lost_copy:
      return "copy lost in a capture";
    case finding_kind::bad_wait:
      return "bad wait";
    case finding_kind::bad_free:
      return "bad free";
    case finding_kind::forbidden_call:
      return "forbidden call";
    case finding_kind::leak:
      return "leak";
  }
  return "?";
}

std::vector<operation> timeline() {
  const session s;
  std::vector<operation> result;
  result.reserve(s.machine().records.size());
  for (const auto& r : s.machine().records) {
    result.push_back({r.kind, s.machine().texts.text(r.name), r.device, r.stream, r.uses, r.enqueued, r.start, r.end,
                      r.bytes, r.flops, r.call, r.to, r.from, r.waits_for});
  }
  return result;
}

void clear_timeline() { session().machine().records.clear(); }

void record_timeline(bool on) { session().machine().recording = on; }

std::vector<std::pair<std::string_view, std::uint64_t>> call_counts() { return detail::function_id::counts(); }

std::uint64_t calls(std::string_view function) {
  for (const auto& [name, count] : call_counts()) {
    if (name == function) return count;
  }
  return 0;
}

void reset_call_counts() {
  const session s;
  detail::function_id::clear_counts();
  s.machine().copies = {};
}

copied bytes_copied(direction d) { return session().machine().copies.at(static_cast<std::size_t>(d)); }

memory_use memory_usage(int device) {
  const session s;
  if (device < 0 || device >= s.machine().device_count())
    throw std::invalid_argument("virtual_gpu::memory_usage: no such device");
  const auto& d = s.machine().on(device);
  return {d.used, d.peak, s.machine().pinned_used, s.machine().pinned_peak};
}

void reset_peaks() {
  const session s;
  for (int i = 0; i < s.machine().device_count(); ++i) s.machine().on(i).peak = s.machine().on(i).used;
  s.machine().pinned_peak = s.machine().pinned_used;
}

std::vector<finding> findings() { return session().machine().detect.found(); }

void clear_findings() { session().machine().detect.clear(); }

std::vector<finding> leaks() {
  const session s;
  auto& gpu = s.machine();
  std::vector<finding> result;
  const auto made_by = [](std::uint64_t call) { return " (call #" + std::to_string(call) + ")"; };
  // Of a device that a sticky error has ended all goes back with the process.
  const auto lives = [&gpu](const auto& x) { return gpu.on(x.device).lost == cudaSuccess; };
  for (const auto& [begin, a] : gpu.memory.all()) {
    if (lives(a)) result.push_back(leak_of(gpu.detect.describe(a)));
  }
  gpu.streams.each([&](const detail::stream& x, cudaStream_t) {
    if (!x.implicit && lives(x)) result.push_back(leak_of("stream " + std::to_string(x.number) + made_by(x.call)));
  });
  gpu.events.each([&](const detail::event& x, cudaEvent_t) {
    if (lives(x)) result.push_back(leak_of("event " + std::to_string(x.number) + made_by(x.call)));
  });
  gpu.graphs.each([&](const detail::graph& x, cudaGraph_t) {
    if (lives(x)) result.push_back(leak_of("graph " + std::to_string(x.number) + made_by(x.call)));
  });
  gpu.executables.each([&](const detail::executable_graph& x, cudaGraphExec_t) {
    if (lives(x)) result.push_back(leak_of("executable graph " + std::to_string(x.number) + made_by(x.call)));
  });
  gpu.pools.each([&](const detail::pool& x, cudaMemPool_t) {
    if (!x.is_default && lives(x))
      result.push_back(leak_of("memory pool " + std::to_string(x.number) + made_by(x.call)));
  });
  return result;
}

void host_reads(const void* begin, std::size_t bytes) {
  const session s;
  auto& gpu = s.machine();
  const auto who = gpu.access_of_host(gpu.texts.id("host read"));
  each_known(gpu, begin, bytes, [&](detail::allocation& a, std::size_t first, std::size_t last) {
    if (!a.on_device()) gpu.detect.host_read(who, gpu.host_clock(), a, first, last);
  });
}

void host_writes(const void* begin, std::size_t bytes) {
  const session s;
  auto& gpu = s.machine();
  const auto who = gpu.access_of_host(gpu.texts.id("host write"));
  each_known(gpu, begin, bytes, [&](detail::allocation& a, std::size_t first, std::size_t last) {
    if (!a.on_device()) gpu.detect.host_write(who, gpu.host_clock(), a, first, last);
  });
}

void slot_taken(void* begin, std::size_t bytes) {
  const session s;
  each_known(s.machine(), begin, bytes, detail::detector::taken);
}

void slot_given_back(void* begin, std::size_t bytes) {
  const session s;
  each_known(s.machine(), begin, bytes, detail::detector::given_back);
}

}  // namespace hostoffload::inline v0::virtual_gpu
