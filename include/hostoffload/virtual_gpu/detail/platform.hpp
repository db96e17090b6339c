#pragma once
// The machine with all its state: devices, streams, events, memory, clocks. One per process, behind one mutex
// (call.hpp).

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/detail/detector.hpp>
#include <hostoffload/virtual_gpu/detail/execution_order.hpp>
#include <hostoffload/virtual_gpu/detail/fault_plan.hpp>
#include <hostoffload/virtual_gpu/detail/graph.hpp>
#include <hostoffload/virtual_gpu/detail/handles.hpp>
#include <hostoffload/virtual_gpu/detail/simulator.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

/// What belongs to one host thread.
struct thread_state {
  std::uint64_t id = 0;
  std::uint64_t epoch = 0;  // of the reset that the rest belongs to
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  double clock = 0;
  bool inside = false;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
};

/// Thrown by what needs a device that a sticky error has ended.
struct device_lost {
  cudaError_t code;
};

/// Thrown where the rules of stream capture forbid a call.
struct refused {
  cudaError_t code;
};

struct device_state {
  cudaError_t lost = cudaSuccess;  // the sticky error
  std::vector<stream*> streams;    // all that may have work, destroyed ones too
  stream* legacy = nullptr;
  vector_clock retired;           // of streams that are gone
  vector_clock retired_blocking;  // and of those that the legacy stream waits for
  std::size_t used = 0, peak = 0;
  pool* default_pool = nullptr;
  pool* current_pool = nullptr;
  cudaMemPool_t default_pool_handle = nullptr;
  cudaMemPool_t current_pool_handle = nullptr;
};

class platform final : private completion {
public:
  platform(machine m, int devices, mode how);
  platform(const platform&) = delete;
  platform& operator=(const platform&) = delete;
  ~platform() override;

  const machine model;
  const bool dry;

  // --- Streams and their order (platform.cpp)

  /// The stream of a handle, of the special handles too; null if there is none. Throws device_lost.
  [[nodiscard]] stream* known_stream(cudaStream_t handle, const thread_state& t);
  /// The same for whoever wants something of the stream: throws refused where a capture does not allow it.
  [[nodiscard]] stream* find_stream(cudaStream_t handle, const thread_state& t);
  std::pair<stream*, cudaStream_t> create_stream(int device, unsigned flags, int priority);
  void destroy_stream(cudaStream_t handle);

  /// An operation that is ordered behind all that its stream is ordered behind; fill it in, then enqueue it.
  pending_operation& begin(stream& s, operation_kind kind, std::uint32_t name, const thread_state& t);
  void enqueue(pending_operation& op);
  [[nodiscard]] static access access_of(const pending_operation& op);
  /// An access that is the host's own, or a call's, for messages.
  [[nodiscard]] access access_of_host(std::uint32_t name) const;

  /// The thread waits, and knows afterwards that what it waited for is done.
  void wait_for(stream& s, thread_state& t);
  /// Has it done all its work, as far as the thread's clock can tell? If so, the host knows of it.
  [[nodiscard]] bool is_done(const stream& s, const thread_state& t);
  void wait_for_device(int device, thread_state& t);
  void know(const vector_clock& c);
  /// Whatever is enqueued on `s` next is ordered behind all that `e` is behind.
  [[nodiscard]] bool is_behind(const stream& s, const event& e);

  /// A sticky error: nothing that the device still has to do takes effect.
  void lose(int device, cudaError_t code);
  void require(int device) const {
    const auto& d = devices_[static_cast<std::size_t>(device)];
    if (d.lost != cudaSuccess) throw device_lost{d.lost};
  }

  [[nodiscard]] const vector_clock& host_clock() const noexcept { return host_; }

  [[nodiscard]] device_state& on(int device) { return devices_[static_cast<std::size_t>(device)]; }
  [[nodiscard]] int device_count() const noexcept { return static_cast<int>(devices_.size()); }

  // --- Captures and graphs (platform_graph.cpp)

  void begin_capture(stream& s, cudaStreamCaptureMode mode, const thread_state& t);
  /// The streams leave capture mode. Null, with the reason, where the capture gives no graph.
  [[nodiscard]] std::pair<cudaGraph_t, cudaError_t> end_capture(stream& s);
  /// A node behind all that the stream is behind.
  void collect(stream& s, std::uint32_t name, node_work what);
  void record_in_capture(stream& s, event& e);
  /// Orders the stream behind the event, which is captured, or the stream is; it may join the event's capture.
  void wait_in_capture(stream& s, const event& e);
  /// Whether the next node of `s`, which is captured, depends on all that `e` is behind anyway.
  [[nodiscard]] static bool depends_on(const stream& s, const event& e);

  /// "When an invalid operation is attempted during a stream capture, any associated capture graphs are invalidated."
  [[noreturn]] static void refuse(capture& c, cudaError_t code);
  static void refuse_if_captured(const stream& s, cudaError_t code = cudaErrorStreamCaptureUnsupported);
  void refuse_if_captured(const event& e);
  /// For what concerns all streams of a device.
  void refuse_if_capturing(int device);
  /// For calls that are "potentially unsafe" in a capture (cudaThreadExchangeStreamCaptureMode).
  void refuse_unsafe(const thread_state& t);
  [[nodiscard]] bool legacy_is_unusable(const stream& legacy) const;
  void refuse_legacy(const stream& legacy);

  cudaGraphExec_t instantiate(const graph& g, bool node_priorities);
  void destroy(cudaGraphExec_t handle);
  void forget_graphs(int device);

  // --- Memory (platform_memory.cpp)

  /// Null when the device is full.
  [[nodiscard]] std::byte* allocate(std::size_t bytes, std::uint32_t function, int device);
  [[nodiscard]] std::byte* allocate_pinned(std::size_t bytes, std::uint32_t function, unsigned flags, int device);
  [[nodiscard]] std::byte* allocate_from(pool& from, std::size_t bytes, stream& s, std::uint32_t function,
                                         const thread_state& t);
  /// Frees an allocation that nothing uses any more; of a pool or not.
  void free(allocation& a);
  void free_in_order(allocation& a, stream& s, std::uint32_t function, const thread_state& t);
  void free_pinned(allocation& a);
  void trim(pool& p, std::size_t keep);
  /// What pools may keep across a synchronisation.
  void trim_after_synchronising();
  void destroy_pool(cudaMemPool_t handle);
  void reset_device(int device, thread_state& t);

  void keep_storage(allocation& a, std::size_t begin, std::size_t bytes);
  /// Whether bytes of the allocation can hold anything.
  [[nodiscard]] bool stored(const allocation& a, std::size_t begin, std::size_t bytes) const;

  /// Counts pinned bytes; false when the hosts have no more.
  [[nodiscard]] bool pin(std::size_t bytes);

  simulator simulation;
  names texts;
  allocation_table memory;
  detector detect;
  handle_table<stream, cudaStream_t> streams;
  handle_table<event, cudaEvent_t> events;
  handle_table<pool, cudaMemPool_t> pools;
  handle_table<graph, cudaGraph_t> graphs;
  handle_table<executable_graph, cudaGraphExec_t> executables;
  std::vector<std::unique_ptr<capture>> captures;  // under way
  fault_plan faults;
  execution_order order_of_effects;

  std::uint64_t calls = 0;
  std::uint64_t serial = 0;  // of streams, events and pools, for messages
  double latest = 0;         // of all host threads
  std::array<copied, 3> copies{};
  std::size_t pinned_used = 0, pinned_peak = 0;

  bool recording = true;
  struct record {
    operation_kind kind;
    resource uses;
    std::uint32_t name;
    int device;
    std::uint64_t stream, call;
    double enqueued, start, end, bytes, flops;
    const void *to, *from;
    std::uint64_t waits_for;
  };
  std::deque<record> records;

private:
  void completed(pending_operation& op, double at) override;
  void order(stream& s, pending_operation& op);
  [[nodiscard]] lane take_lane(stream& s);
  [[nodiscard]] capture* find_capture(std::uint64_t id) const;
  void collect_streams();
  void freed(pending_operation& op);
  [[nodiscard]] memory_block* reusable(pool& from, std::size_t bytes, const stream& s, bool by_dependency);
  [[nodiscard]] std::byte* map_on(int device, std::size_t bytes);
  allocation& add_device_memory(std::byte* begin, std::size_t bytes, std::uint32_t function, int device,
                                const access& born);
  void drop(memory_block& b);

  address_space space_;
  std::vector<device_state> devices_;
  vector_clock host_;
  std::uint64_t host_version_ = 1;

  struct free_lane {
    lane number;
    std::uint64_t tick;
  };
  lane lanes_ = 1;
  std::vector<free_lane> free_lanes_;
  std::vector<std::unique_ptr<stream>> destroyed_;  // until they have done their work
  std::map<std::pair<std::uint64_t, int>, stream*> per_thread_;
  std::vector<std::unique_ptr<pool>> destroyed_pools_;
  std::vector<std::unique_ptr<memory_block>> loose_blocks_;  // of cudaMalloc, freed in stream order
};

[[nodiscard]] inline std::size_t rounded(std::size_t bytes) noexcept { return (bytes + 255) / 256 * 256; }

}  // namespace hostoffload::inline v0::virtual_gpu::detail
