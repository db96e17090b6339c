#pragma once
// Discrete-event simulation of streams on described machines. Rates are a fluid model: they change only when something
// starts or ends, so every duration can be worked out by hand.
//
// - A stream starts its next operation when the one before it has completed, the host has enqueued it, and what
//   blocks it has completed. A wait that really waits lasts wait_latency longer; a delay comes on top of any latency.
// - Kernels, memsets and copies within a device all run at once. After kernel_latency each takes max(flops / rate,
//   bytes / HBM) seconds alone. Together they are slowed by one common factor, the largest at which neither the SMs nor
//   what copies leave of the HBM are used more than fully.
// - Host copies queue for one copy engine per device and direction, in the order in which they become ready; at equal
//   times the stream of higher priority, then the earlier call, goes first. After the link's latency all copies that
//   move bytes share links and host memories by max-min fairness.

#include <cstdint>
#include <limits>
#include <memory>
#include <queue>
#include <stdexcept>
#include <vector>

#include <hostoffload/virtual_gpu/detail/operation.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

/// What an operation does when it completes.
class completion {
public:
  completion() = default;
  completion(const completion&) = delete;
  completion& operator=(const completion&) = delete;
  virtual ~completion() = default;

  virtual void completed(pending_operation& op, double at) = 0;
};

class simulator {
public:
  simulator(const machine& m, int devices, completion& effects);

  /// An operation to fill in; it goes back by itself when it has completed.
  [[nodiscard]] pending_operation& take();

  /// `op` starts no earlier than `by` completes. No effect if `by` is null, that is: has completed.
  static void block(pending_operation& op, pending_operation* by);

  /// Appends to the operation's stream.
  void enqueue(pending_operation& op);

  /// Lets everything up to `limit` happen.
  void advance(double limit) {
    settle();
    while (next() <= limit) step();
  }

  /// Lets things happen until `reached()`.
  template <typename Predicate>
  void advance_until(Predicate reached) {
    settle();
    while (!reached()) {
      if (next() == std::numeric_limits<double>::infinity())
        throw std::logic_error("virtual GPU: nothing left to wait for");
      step();
    }
  }

private:
  struct engine {
    pending_operation* busy = nullptr;
    std::vector<pending_operation*> queue;
    double last_end = -1;
  };
  struct device {
    engine to_device, to_host;
    std::vector<pending_operation*> kernels;  // in flow
    double copy_traffic = 0;                  // of HBM, bytes per second
  };
  struct timer {
    double at;
    std::uint64_t order;
    pending_operation* op;
    friend bool operator<(const timer& a, const timer& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };
  // Copies whose rates sum up to no more than `capacity`; members are a range of bound_members_.
  struct bound {
    double capacity;
    std::size_t first, count;
  };

  [[nodiscard]] double next() const noexcept;
  void step();
  void settle();
  void reach(pending_operation& op, double at);
  void arrive(pending_operation& op);
  void ready(pending_operation& op);
  void start_engine(engine& e);
  void begin_flow(pending_operation& op);
  void complete(pending_operation& op);
  void schedule(pending_operation& op, phase at, double when);
  void set_rates();
  void share_links();
  void add_bound(double capacity, int host, int dev, bool to_device, bool to_host);
  void set_speed(pending_operation& op, double speed) const;
  [[nodiscard]] engine& engine_of(const pending_operation& op);
  [[nodiscard]] int host_of(int dev) const noexcept { return dev / machine_.devices_per_host; }

  const machine& machine_;
  completion& effects_;
  std::vector<device> devices_;
  std::vector<pending_operation*> copies_;  // in flow
  std::priority_queue<timer> timers_;
  std::uint64_t order_ = 0;
  double now_ = 0;
  bool rates_changed_ = false;
  std::vector<pending_operation*> arrived_, ready_, finished_;  // work lists, instead of recursion

  std::vector<bound> bounds_;  // of share_links
  std::vector<std::size_t> bound_members_;
  std::vector<double> shares_;
  std::vector<char> fixed_;

  std::vector<std::unique_ptr<pending_operation>> all_;
  std::vector<pending_operation*> unused_;
};

}  // namespace hostoffload::inline v0::virtual_gpu::detail
