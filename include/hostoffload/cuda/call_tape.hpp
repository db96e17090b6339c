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

  /// The events of one stream: point n, counted from the step's beginning, is points[n]; n may be negative.
  using points = const cudaEvent_t*;

  /// Point `number` of the stream `of`, recorded on it.
  void record(event_ref point, cudaStream_t on, stream_id of, std::uint64_t number, const purpose& what) {
    if (is_off() ||
        is_due({.is = kind::record, .of = of, .number = from_start(of, number), .on = on}, "cudaEventRecord", what))
      point.record(on, what);
  }
  void wait(event_ref point, cudaStream_t on, stream_id of, std::uint64_t number, const purpose& what) {
    if (is_off() ||
        is_due({.is = kind::wait, .of = of, .number = from_start(of, number), .on = on}, "cudaStreamWaitEvent", what))
      point.hold(on, what);
  }
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind way, cudaStream_t on, const purpose& what) {
    if (is_off() || is_due(write_copy({to, from, bytes}, way, on), "cudaMemcpyAsync", what))
      check(cudaMemcpyAsync(to, from, bytes, way, on), "cudaMemcpyAsync", what);
  }
  /// One call from CUDA 13 on; before, one per copy. The copies have no order among themselves; `on` is neither the
  /// legacy default stream nor being captured: a capture loses batches.
  void copy_batch(void* const* to, const void* const* from, const std::size_t* sizes, std::size_t count,
                  [[maybe_unused]] cudaMemcpyKind way, cudaStream_t on, const purpose& what) {
#if CUDART_VERSION >= 13000
    if (is_off() || is_due(write_batch(to, from, sizes, count, on), "cudaMemcpyBatchAsync", what))
      check(enqueue_batch(to, from, sizes, count, on), "cudaMemcpyBatchAsync", what);
#else
    for (std::size_t i = 0; i < count; ++i) copy(to[i], from[i], sizes[i], way, on, what);
#endif
  }
  void tell(listener told, void* begin, std::size_t bytes) {
    if (told == nullptr) return;
    if (is_off() || is_due(write_told({told, begin, bytes}), {}, {})) told(begin, bytes);
  }

  /// Writes down what is enqueued from now on; `last_points` of each stream so far.
  void begin_writing(const std::array<std::uint64_t, max_streams>& last_points) noexcept {
    calls_.clear();
    copies_.clear();
    to_.clear();
    from_.clear();
    sizes_.clear();
    told_.clear();
    start_ = last_points;
    mode_ = mode::writing;
  }
  /// Whether all calls since then are in the list: not where there was no memory for it.
  bool end_writing() noexcept { return std::exchange(mode_, mode::off) == mode::writing; }
  /// Calls so far.
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(calls_.size()); }

  void begin_playing(const std::array<points, max_streams>& of_streams) noexcept {
    points_ = of_streams;
    failure_ = cudaSuccess;
  }
  /// Enqueues the calls from number `first` up to `last`. False if one fails, and from then on.
  [[nodiscard, gnu::noinline]] bool play(std::uint32_t first, std::uint32_t last) {
    if (failure_ != cudaSuccess) return false;
    const call* const end = calls_.data() + last;
    for (const call* c = calls_.data() + first; c != end; ++c) {
      const cudaError_t code = play(*c);
      if (code == cudaSuccess) continue;
      failure_ = code;
      failed_ = static_cast<std::size_t>(c - calls_.data());
      return false;
    }
    return true;
  }
  /// What has been played, so many calls or those before the one that failed, is enqueued already when the calls come
  /// again, one by one, now; the one that failed fails once more.
  void pass_over(std::uint32_t played) noexcept {
    to_pass_ = failure_ == cudaSuccess ? played : failed_;
    mode_ = to_pass_ != 0 || failure_ != cudaSuccess ? mode::passing : mode::off;
  }
  /// Whether some of these are still to come.
  [[nodiscard]] bool is_passing() const noexcept { return mode_ == mode::passing; }

private:
  enum class mode : std::uint8_t { off, writing, passing };
  enum class kind : std::uint8_t { record, wait, copy, batch, tell };
  /// Small, since a step has many; what is copied or told of is in lists of its own.
  struct call {
    kind is = kind::record;
    stream_id of = 0;
    std::uint8_t way = 0;     // of a copy, a cudaMemcpyKind
    std::uint8_t count = 0;   // of a batch's copies
    std::int32_t number = 0;  // of the point, from the step's beginning; of the (first) copy; of the piece of memory
    cudaStream_t on = nullptr;
  };
  static_assert(sizeof(call) == 16);
  struct bytes_copied {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  struct bytes_told {
    listener told;
    void* begin;
    std::size_t bytes;
  };

  [[nodiscard]] bool is_off() const noexcept { return mode_ == mode::off; }
  [[nodiscard]] std::int32_t from_start(stream_id of, std::uint64_t number) const noexcept {
    return static_cast<std::int32_t>(static_cast<std::int64_t>(number - start_[of]));
  }

  void write(const call& c) noexcept {
    try {
      calls_.push_back(c);
    } catch (const std::bad_alloc&) {
      mode_ = mode::off;
    }
  }
  /// The call, and its arguments where it is to be written down.
  call write_copy(const bytes_copied& b, cudaMemcpyKind way, cudaStream_t on) noexcept {
    const auto number = static_cast<std::int32_t>(copies_.size());
    try {
      if (mode_ == mode::writing) copies_.push_back(b);
    } catch (const std::bad_alloc&) {
      mode_ = mode::off;
    }
    return {.is = kind::copy, .way = static_cast<std::uint8_t>(way), .number = number, .on = on};
  }
  call write_batch(void* const* to, const void* const* from, const std::size_t* sizes, std::size_t count,
                   cudaStream_t on) noexcept {
    const auto first = static_cast<std::int32_t>(sizes_.size());
    try {
      if (mode_ == mode::writing) {
        to_.insert(to_.end(), to, to + count);
        from_.insert(from_.end(), from, from + count);
        sizes_.insert(sizes_.end(), sizes, sizes + count);
      }
    } catch (const std::bad_alloc&) {
      mode_ = mode::off;
    }
    return {.is = kind::batch, .count = static_cast<std::uint8_t>(count), .number = first, .on = on};
  }
  call write_told(const bytes_told& b) noexcept {
    const auto first = static_cast<std::int32_t>(told_.size());
    try {
      if (mode_ == mode::writing) told_.push_back(b);
    } catch (const std::bad_alloc&) {
      mode_ = mode::off;
    }
    return {.is = kind::tell, .number = first};
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

  [[nodiscard]] cudaEvent_t event_of(const call& c) const noexcept { return points_[c.of][c.number]; }

  cudaError_t play(const call& c) {
    if (c.is == kind::record) return cudaEventRecord(event_of(c), c.on);
    if (c.is == kind::wait) return cudaStreamWaitEvent(c.on, event_of(c), 0);
    const auto i = static_cast<std::size_t>(c.number);
    if (c.is == kind::copy) {
      const bytes_copied& b = copies_[i];
      return cudaMemcpyAsync(b.to, b.from, b.bytes, static_cast<cudaMemcpyKind>(c.way), c.on);
    }
    if (c.is == kind::batch) return enqueue_batch(&to_[i], &from_[i], &sizes_[i], c.count, c.on);
    told_[i].told(told_[i].begin, told_[i].bytes);
    return cudaSuccess;
  }

  [[gnu::noinline]] static cudaError_t enqueue_batch([[maybe_unused]] void* const* to,
                                                     [[maybe_unused]] const void* const* from,
                                                     [[maybe_unused]] const std::size_t* sizes,
                                                     [[maybe_unused]] std::size_t count,
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
  std::vector<bytes_copied> copies_;
  std::vector<void*> to_;  // of batches
  std::vector<const void*> from_;
  std::vector<std::size_t> sizes_;
  std::vector<bytes_told> told_;
  std::array<std::uint64_t, max_streams> start_{};
  std::array<points, max_streams> points_{};
  std::size_t to_pass_ = 0;
  cudaError_t failure_ = cudaSuccess;  // of the call number failed_
  std::size_t failed_ = 0;
};

}  // namespace hostoffload::inline v0::detail
