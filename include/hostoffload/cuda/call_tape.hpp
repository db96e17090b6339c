#pragma once
// The calls of a step, one after the other, with their arguments. What a scheduler enqueues goes through here: it is
// enqueued, and written down where a step may come again. Then the list is played: the same calls on the step's own
// events, and nothing else. Host code never waits here.

#include <hostoffload/cuda/error.hpp>
#include <hostoffload/cuda/event.hpp>

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

inline constexpr std::size_t max_streams = 8;
using stream_id = std::uint8_t;

class call_tape {
public:
  /// Somebody who watches memory is told of a piece of it.
  using listener = void (*)(void* begin, std::size_t bytes);

  /// The events of one stream: point n, counted from the step's beginning, is ring[(n + first) & mask].
  struct points {
    const event* ring = nullptr;
    std::uint64_t first = 0;
    std::uint64_t mask = 0;
  };

  /// Point `number` of the stream `of`, recorded on it.
  void record(event_ref point, cudaStream_t on, stream_id of, std::uint64_t number, const purpose& what) {
    if (is_off() ||
        is_due({.is = kind::record, .of = of, .point = from_start(of, number), .on = on}, "cudaEventRecord", what))
      point.record(on, what);
  }
  void wait(event_ref point, cudaStream_t on, stream_id of, std::uint64_t number, const purpose& what) {
    if (is_off() ||
        is_due({.is = kind::wait, .of = of, .point = from_start(of, number), .on = on}, "cudaStreamWaitEvent", what))
      point.hold(on, what);
  }
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind way, cudaStream_t on, const purpose& what) {
    if (is_off() || is_due({.is = kind::copy, .way = way, .on = on, .to = to, .from = from, .bytes = bytes},
                           "cudaMemcpyAsync", what))
      check(cudaMemcpyAsync(to, from, bytes, way, on), "cudaMemcpyAsync", what);
  }
  /// One call from CUDA 13 on; before, one per copy. The copies have no order among themselves; `on` is neither the
  /// legacy default stream nor being captured: a capture loses batches.
  void copy_batch(void* const* to, const void* const* from, const std::size_t* sizes, std::size_t count,
                  cudaMemcpyKind way, cudaStream_t on, const purpose& what) {
#if CUDART_VERSION >= 13000
    const auto first = static_cast<std::int64_t>(sizes_.size());
    if (mode_ == mode::writing) write_batch(to, from, sizes, count);
    if (is_off() ||
        is_due({.is = kind::batch, .way = way, .point = first, .on = on, .bytes = count}, "cudaMemcpyBatchAsync", what))
      check(enqueue_batch(to, from, sizes, count, on), "cudaMemcpyBatchAsync", what);
#else
    for (std::size_t i = 0; i < count; ++i) copy(to[i], from[i], sizes[i], way, on, what);
#endif
  }
  void tell(listener told, void* begin, std::size_t bytes) {
    if (told == nullptr) return;
    if (is_off() || is_due({.is = kind::tell, .told = told, .to = begin, .bytes = bytes}, {}, {})) told(begin, bytes);
  }

  /// Writes down what is enqueued from now on; `last_points` of each stream so far.
  void begin_writing(const std::array<std::uint64_t, max_streams>& last_points) noexcept {
    calls_.clear();
    to_.clear();
    from_.clear();
    sizes_.clear();
    start_ = last_points;
    mode_ = mode::writing;
  }
  /// Whether all calls since then are in the list: not where there was no memory for it.
  bool end_writing() noexcept { return std::exchange(mode_, mode::off) == mode::writing; }
  /// Calls so far.
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(calls_.size()); }

  void begin_playing(const std::array<points, max_streams>& of_streams) noexcept {
    points_ = of_streams;
    played_ = 0;
  }
  /// Enqueues the calls that follow, up to number `last`. Ends at one that fails, with its error.
  [[nodiscard]] cudaError_t play_to(std::uint32_t last) {
    for (; played_ != last; ++played_) {
      const cudaError_t code = play(calls_[played_]);
      if (code != cudaSuccess) return code;
    }
    return cudaSuccess;
  }
  /// What has been played is enqueued already when the calls come again, one by one, now; then the next one fails with
  /// `failure`, if there is one.
  void pass_over_played(cudaError_t failure) noexcept {
    to_pass_ = played_;
    failure_ = failure;
    mode_ = to_pass_ != 0 || failure != cudaSuccess ? mode::passing : mode::off;
  }

private:
  enum class mode : std::uint8_t { off, writing, passing };
  enum class kind : std::uint8_t { record, wait, copy, batch, tell };
  struct call {
    kind is = kind::record;
    stream_id of = 0;
    cudaMemcpyKind way = cudaMemcpyDefault;
    std::int64_t point = 0;  // from the step's beginning; of a batch: its first copy
    cudaStream_t on = nullptr;
    listener told = nullptr;
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0;  // of a batch: its copies
  };

  [[nodiscard]] bool is_off() const noexcept { return mode_ == mode::off; }
  [[nodiscard]] std::int64_t from_start(stream_id of, std::uint64_t number) const noexcept {
    return static_cast<std::int64_t>(number - start_[of]);
  }

  void write(const call& c) noexcept {
    try {
      calls_.push_back(c);
    } catch (const std::bad_alloc&) {
      mode_ = mode::off;
    }
  }
  void write_batch(void* const* to, const void* const* from, const std::size_t* sizes, std::size_t count) noexcept {
    try {
      to_.insert(to_.end(), to, to + count);
      from_.insert(from_.end(), from, from + count);
      sizes_.insert(sizes_.end(), sizes, sizes + count);
    } catch (const std::bad_alloc&) {
      mode_ = mode::off;
    }
  }

  /// Whether it is to be enqueued; is written down then.
  bool is_due(const call& c, std::string_view name, const purpose& what) {
    if (mode_ == mode::writing) {
      write(c);
      return true;
    }
    if (to_pass_ != 0) {
      --to_pass_;
      if (to_pass_ == 0 && failure_ == cudaSuccess) mode_ = mode::off;
      return false;
    }
    mode_ = mode::off;
    check(std::exchange(failure_, cudaSuccess), name, what);
    return true;
  }

  [[nodiscard]] cudaEvent_t event_of(const call& c) const noexcept {
    const points& p = points_[c.of];
    return p.ring[(static_cast<std::uint64_t>(c.point) + p.first) & p.mask].get();
  }

  cudaError_t play(const call& c) {
    switch (c.is) {
      case kind::record:
        return cudaEventRecord(event_of(c), c.on);
      case kind::wait:
        return cudaStreamWaitEvent(c.on, event_of(c), 0);
      case kind::copy:
        return cudaMemcpyAsync(c.to, c.from, c.bytes, c.way, c.on);
      case kind::batch:
        return enqueue_batch(&to_[static_cast<std::size_t>(c.point)], &from_[static_cast<std::size_t>(c.point)],
                             &sizes_[static_cast<std::size_t>(c.point)], c.bytes, c.on);
      case kind::tell:
        c.told(c.to, c.bytes);
        break;
    }
    return cudaSuccess;
  }

  static cudaError_t enqueue_batch([[maybe_unused]] void* const* to, [[maybe_unused]] const void* const* from,
                                   [[maybe_unused]] const std::size_t* sizes, [[maybe_unused]] std::size_t count,
                                   [[maybe_unused]] cudaStream_t on) {
#if CUDART_VERSION >= 13000
    cudaMemcpyAttributes in_stream_order{};
    in_stream_order.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
    return cudaMemcpyBatchAsync(to, from, sizes, count, &in_stream_order, &first, 1, on);
#else
    return cudaSuccess;
#endif
  }

  mode mode_ = mode::off;
  std::vector<call> calls_;
  std::vector<void*> to_;  // of batches
  std::vector<const void*> from_;
  std::vector<std::size_t> sizes_;
  std::array<std::uint64_t, max_streams> start_{};
  std::array<points, max_streams> points_{};
  std::uint32_t played_ = 0;
  std::uint32_t to_pass_ = 0;
  cudaError_t failure_ = cudaSuccess;
};

}  // namespace hostoffload::inline v0::detail
