#pragma once
// The rates of the link between the current device and pinned memory, for a record of a step that copied nothing.

#include <hostoffload/cuda/allocation.hpp>
#include <hostoffload/cuda/event.hpp>
#include <hostoffload/cuda/stream.hpp>
#include <hostoffload/errors.hpp>
#include <hostoffload/schedule/link_fit.hpp>
#include <hostoffload/schedule/recorded_step.hpp>
#include <hostoffload/schedule/step_timeline.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace hostoffload::inline v0 {

namespace detail {

/// Copies each way between buffers of its own, timed from when this is built.
class link_probe {
public:
  explicit link_probe(std::size_t bytes) : bytes_(bytes), ways_{way(bytes), way(bytes)} {
    for (way& w : ways_) {  // pages that nobody has touched are slow the first time
      std::memset(w.host.region().begin, 0, bytes);
      check(cudaMemsetAsync(w.device.region().begin, 0, bytes, w.stream.get()), "cudaMemsetAsync");
    }
    event_ref(began_).record(ways_[0].stream.get());
  }

  /// One after the other.
  void enqueue(link_way along) {
    way& w = ways_[static_cast<std::size_t>(along)];
    void* const device = w.device.region().begin;
    void* const host = w.host.region().begin;
    for (const std::size_t part : {std::size_t{1}, std::size_t{4}, std::size_t{2}, std::size_t{1}}) {
      mark(w);
      check(along == link_way::out
                ? cudaMemcpyAsync(host, device, bytes_ / part, cudaMemcpyDeviceToHost, w.stream.get())
                : cudaMemcpyAsync(device, host, bytes_ / part, cudaMemcpyHostToDevice, w.stream.get()),
            "cudaMemcpyAsync");
      w.copied.push_back(bytes_ / part);
    }
    mark(w);
  }
  /// Waits for what was enqueued since the last call.
  void finish() {
    for (way& w : ways_) {
      check(cudaStreamSynchronize(w.stream.get()), "cudaStreamSynchronize");
      for (std::size_t i = 0; i < w.copied.size(); ++i)
        w.timed.push_back({seconds(w.marks[i]), seconds(w.marks[i + 1]), w.copied[i], i == 0});
      w.marks.clear();
      w.copied.clear();
    }
  }
  [[nodiscard]] link_direction fit(link_way along) const {
    const auto i = static_cast<std::size_t>(along);
    std::optional<link_direction> seen = fit_link(ways_[i].timed, ways_[1 - i].timed);
    if (!seen) throw usage_error("copies of " + std::to_string(bytes_) + " bytes take no time: measure more");
    if (seen->rate_while_both == 0) seen->rate_while_both = seen->rate;
    return *seen;
  }

private:
  struct way {
    explicit way(std::size_t bytes) : device(bytes), host(bytes) {}
    device_allocation device;
    pinned_allocation host;
    hostoffload::stream stream{};
    std::vector<event> marks{};
    std::vector<std::size_t> copied{};
    std::vector<timed_copy> timed{};
  };

  static void mark(way& w) { event_ref(w.marks.emplace_back(event_use::timing)).record(w.stream.get()); }
  [[nodiscard]] double seconds(const event& until) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, began_.get(), until.get()), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1e3;
  }

  std::size_t bytes_;
  std::array<way, 2> ways_;
  event began_{event_use::timing};
};

}  // namespace detail

struct measured_link {
  link_direction out{};  ///< device to host
  link_direction in{};   ///< host to device
};

/// Copies of up to `bytes`, each way alone and both at once; takes twice as much device memory and pinned memory, and
/// gives it back. Waits for its copies: not for within a step. Of the size of the tensors is best, and at least 4
/// bytes. Throws cuda_error, out_of_memory, usage_error.
[[nodiscard]] inline measured_link measure_link(std::size_t bytes) {
  if (bytes < 4) throw usage_error("the link is measured with copies of at least 4 bytes");
  detail::link_probe probe(bytes);
  for (const detail::link_way alone : {detail::link_way::out, detail::link_way::in}) {
    probe.enqueue(alone);
    probe.finish();
  }
  probe.enqueue(detail::link_way::out);
  probe.enqueue(detail::link_way::in);
  probe.finish();
  return {probe.fit(detail::link_way::out), probe.fit(detail::link_way::in)};
}

}  // namespace hostoffload::inline v0
