#include "peers.hpp"

#include "peer_step.hpp"

#include <algorithm>
#include <deque>
#include <vector>

namespace schedules {
namespace {

using lane = cuda_step::lane;

/// PyTorch's save_on_cpu: both copies on the compute stream.
class synchronous final : public peer_step {
public:
  using peer_step::peer_step;

private:
  void before(std::size_t segment) override {
    for (const std::size_t t : returning(segment)) {
      cuda.copy_in(t, lane::compute);
      holds_again(t);
    }
  }
  void after(std::size_t segment) override {
    for (const std::size_t t : made(segment)) {
      cuda.copy_out(t, lane::compute);
      holds_until(t, {kind::copy_out_ends, t});
    }
  }
};

/// torchtune's OffloadActivations with streams: one side stream; a stash of 5 tensors in flight, of which the compute
/// stream waits for the oldest; tensors still in the stash are used from there; no prefetch.
class torchtune final : public peer_step {
public:
  using peer_step::peer_step;

private:
  static constexpr std::size_t in_flight = 5;

  struct stashed {
    std::size_t tensor;
    cuda_step::mark copied;
  };

  void before(std::size_t segment) override {
    for (const std::size_t t : returning(segment)) {
      const auto found = std::find_if(stash_.begin(), stash_.end(), [t](const stashed& s) { return s.tensor == t; });
      if (found != stash_.end()) {
        stash_.erase(found);
        keep(t);
        continue;
      }
      cuda.join(lane::first_copies, lane::compute);
      cuda.copy_in(t, lane::first_copies);
      cuda.join(lane::compute, lane::first_copies);
      holds_again(t);
    }
  }
  void after(std::size_t segment) override {
    for (const std::size_t t : made(segment)) {
      cuda.join(lane::first_copies, lane::compute);
      cuda.copy_out(t, lane::first_copies);
      stash_.push_back({t, cuda.record(lane::first_copies)});
      if (stash_.size() <= in_flight) continue;
      cuda.wait(lane::compute, stash_.front().copied);
      holds_until(stash_.front().tensor, now());
      stash_.pop_front();
    }
  }

  std::deque<stashed> stash_;
};

/// TransformerEngine v2 with its largest n, L - 2: the first n of L layers are put away. The copy of layer i ends
/// before layer L - n + i begins, its copy in is issued when the backward pass of layer L - 1 - n + i begins. One side
/// stream.
class transformer_engine final : public peer_step {
public:
  explicit transformer_engine(const workload& w)
      : peer_step(w),
        layers_(layer.layers()),
        offloaded_(layers_ > 2 ? layers_ - 2 : 0),
        copied_(w.tensors.size()),
        arrived_(w.tensors.size()) {}

private:
  void before(std::size_t segment) override {
    if (const auto p = layer.forward_begins(segment); p && p->layer >= layers_ - offloaded_) {
      for (const std::size_t t : of_layer({p->layer - (layers_ - offloaded_), p->micro_batch})) {
        cuda.wait(lane::compute, copied_[t]);
        holds_until(t, now());
      }
    }
    const std::size_t ahead = layers_ - 1 - offloaded_;
    if (const auto p = layer.backward_begins(segment); p && p->layer >= ahead && p->layer - ahead < offloaded_) {
      cuda.join(lane::first_copies, lane::compute);
      for (const std::size_t t : of_layer({p->layer - ahead, p->micro_batch})) {
        cuda.copy_in(t, lane::first_copies);
        arrived_[t] = cuda.record(lane::first_copies);
        holds_again(t);
      }
    }
    for (const std::size_t t : returning(segment)) {
      if (at(t).layer < offloaded_) cuda.wait(lane::compute, arrived_[t]);
    }
  }
  void after(std::size_t segment) override {
    for (const std::size_t t : made(segment)) {
      if (at(t).layer >= offloaded_) {
        keep(t);
        continue;
      }
      cuda.join(lane::first_copies, lane::compute);
      cuda.copy_out(t, lane::first_copies);
      copied_[t] = cuda.record(lane::first_copies);
    }
  }

  std::size_t layers_, offloaded_;
  std::vector<cuda_step::mark> copied_, arrived_;
};

/// Megatron-LM's fine-grained offload with a layer as the group and a fraction of 1: a group's copies are issued behind
/// its forward pass, two groups are in flight, memory is free when a copy has ended; the next group's copies in are
/// issued when a group's backward pass begins. A stream for each direction. The last group is kept: its backward pass
/// is next.
class megatron final : public peer_step {
public:
  explicit megatron(const workload& w)
      : peer_step(w), copied_(layer.layers() * w.micro_batches), arrived_(w.tensors.size()) {}

private:
  static constexpr std::size_t in_flight = 2;

  [[nodiscard]] cuda_step::mark& copied(const pass_of_layer& p) {
    return copied_[p.micro_batch * layer.layers() + p.layer];
  }
  [[nodiscard]] bool is_last(std::size_t l) const { return l + 1 == layer.layers(); }

  void before(std::size_t segment) override {
    if (const auto p = layer.backward_begins(segment); p && p->layer > 0) {
      const pass_of_layer next{p->layer - 1, p->micro_batch};
      cuda.join(lane::second_copies, lane::compute);
      cuda.wait(lane::second_copies, copied(next));
      for (const std::size_t t : of_layer(next)) {
        cuda.copy_in(t, lane::second_copies);
        arrived_[t] = cuda.record(lane::second_copies);
        holds_again(t);
      }
    }
    for (const std::size_t t : returning(segment)) {
      if (!is_last(at(t).layer)) cuda.wait(lane::compute, arrived_[t]);
    }
  }
  void after(std::size_t segment) override {
    const auto p = layer.forward_ends(segment);
    if (!p) return;
    if (is_last(p->layer)) {
      for (const std::size_t t : of_layer(*p)) keep(t);
      return;
    }
    cuda.join(lane::first_copies, lane::compute);
    for (const std::size_t t : of_layer(*p)) {
      cuda.copy_out(t, lane::first_copies);
      holds_until(t, {kind::copy_out_ends, t});
    }
    copied(*p) = cuda.record(lane::first_copies);
    leaving_.push_back(copied(*p));
    if (leaving_.size() <= in_flight) return;
    cuda.wait(lane::compute, leaving_.front());
    leaving_.pop_front();
  }

  std::vector<cuda_step::mark> copied_, arrived_;
  std::deque<cuda_step::mark> leaving_;
};

/// XLA's pipelined offload: the copies of a layer run during the next iteration of the loop over layers and are done at
/// its end, whatever their size; the last layer's behind the loop. The backward loop is preceded by the copies in of
/// its first layer, and each iteration begins with those of the next. Four streams that both directions share in turn.
class xla final : public peer_step {
public:
  using peer_step::peer_step;

private:
  [[nodiscard]] lane next_stream() {
    constexpr std::size_t streams = 4;
    return static_cast<lane>(lane::first_copies + copies_++ % streams);
  }

  void copy_layer_out(const pass_of_layer& p) {
    for (const std::size_t t : of_layer(p)) {
      const lane l = next_stream();
      cuda.join(l, lane::compute);
      cuda.copy_out(t, l);
      leaving_.push_back({t, cuda.record(l)});
    }
  }
  void finish_copies_out() {
    for (const moving& m : leaving_) {
      cuda.wait(lane::compute, m.done);
      holds_until(m.tensor, now());
    }
    leaving_.clear();
  }
  void copy_layer_in(const pass_of_layer& p) {
    for (const std::size_t t : of_layer(p)) {
      const lane l = next_stream();
      cuda.join(l, lane::compute);
      cuda.copy_in(t, l);
      arriving_.push_back({t, cuda.record(l)});
      holds_again(t);
    }
  }
  void finish_copies_in() {
    for (const moving& m : arriving_) cuda.wait(lane::compute, m.done);
    arriving_.clear();
  }

  void before(std::size_t segment) override {
    const std::size_t layers = layer.layers();
    if (const auto p = layer.forward_begins(segment); p && p->layer > 0) copy_layer_out({p->layer - 1, p->micro_batch});
    if (const auto p = layer.backward_begins(segment)) {
      if (p->layer + 1 == layers) {
        finish_copies_out();
        copy_layer_in(*p);
        finish_copies_in();
      }
      if (p->layer > 0) copy_layer_in({p->layer - 1, p->micro_batch});
    }
  }
  void after(std::size_t segment) override {
    if (const auto p = layer.forward_ends(segment)) {
      finish_copies_out();
      if (p->layer + 1 == layer.layers()) copy_layer_out(*p);
    }
    if (layer.backward_ends(segment)) finish_copies_in();
  }

  struct moving {
    std::size_t tensor;
    cuda_step::mark done;
  };
  std::size_t copies_ = 0;
  std::vector<moving> leaving_, arriving_;
};

/// The last segment that starts by `begin_s`, but none before `first`: a copy in for segment `use` is issued before it.
std::size_t issued_at(const std::vector<double>& starts, std::size_t first, std::size_t use, double begin_s) {
  const auto later = std::upper_bound(starts.begin(), starts.begin() + static_cast<std::ptrdiff_t>(use) + 1, begin_s);
  const auto at = static_cast<std::size_t>(later - starts.begin());
  return std::max(first, at == 0 ? 0 : at - 1);
}

/// PyTorch's compiled offload: out behind the last use of the forward pass, memory is free at the copy's event; in at
/// the last point of the backward pass from which compute covers bytes over a configured rate, here that of the
/// machine. One side stream.
class pytorch final : public peer_step {
public:
  explicit pytorch(const workload& w) : peer_step(w), issued_(w.segments.size()), arrived_(w.tensors.size()) {
    const std::vector<double> starts = segment_starts(w);
    for (std::size_t t = 0; t < w.tensors.size(); ++t) {
      const std::size_t use = gap_of(t).before;
      const std::size_t first = layer.backward(at(t).micro_batch, layer.layers() - 1).first;
      const double begin_s = starts[use] - static_cast<double>(at(t).bytes) / w.link.in;
      issued_[issued_at(starts, first, use, begin_s)].push_back(t);
    }
    for (auto& tensors : issued_) {
      std::stable_sort(tensors.begin(), tensors.end(),
                       [this](std::size_t a, std::size_t b) { return gap_of(a).before < gap_of(b).before; });
    }
  }

private:
  void before(std::size_t segment) override {
    for (const std::size_t t : issued_[segment]) {
      cuda.join(lane::first_copies, lane::compute);
      cuda.copy_in(t, lane::first_copies);
      arrived_[t] = cuda.record(lane::first_copies);
      holds_again(t);
    }
    for (const std::size_t t : returning(segment)) cuda.wait(lane::compute, arrived_[t]);
  }
  void after(std::size_t segment) override {
    for (const std::size_t t : leaving(segment)) {
      cuda.join(lane::first_copies, lane::compute);
      cuda.copy_out(t, lane::first_copies);
      holds_until(t, {kind::copy_out_ends, t});
    }
  }

  std::vector<std::vector<std::size_t>> issued_;  // before a segment
  std::vector<cuda_step::mark> arrived_;
};

/// DeepSpeed's DeepCompile: tensors of at least 5 MiB; behind the last use of the forward pass the compute stream waits
/// for the copy out, and memory is free at once; copies in are hoisted, one behind the other, until measured times
/// cover them, and what has been reloaded stays to the end of the backward pass. So the peak is there and hoisting does
/// not raise it. A stream for each direction.
class deepspeed final : public peer_step {
public:
  explicit deepspeed(const workload& w) : peer_step(w), issued_(w.segments.size()), arrived_(w.tensors.size()) {
    const std::vector<double> starts = segment_starts(w);
    std::vector<std::vector<std::size_t>> of_micro_batch(w.micro_batches);
    for (std::size_t t = 0; t < w.tensors.size(); ++t) {
      if (offloaded(t)) of_micro_batch[at(t).micro_batch].push_back(t);
    }
    for (std::size_t m = 0; m < w.micro_batches; ++m) {
      auto& tensors = of_micro_batch[m];
      std::stable_sort(tensors.begin(), tensors.end(),
                       [this](std::size_t a, std::size_t b) { return gap_of(a).before > gap_of(b).before; });
      const std::size_t first = layer.backward(m, layer.layers() - 1).first;
      double next_begin = starts.back();
      for (const std::size_t t : tensors) {
        const std::size_t use = gap_of(t).before;
        next_begin = std::min(starts[use], next_begin) - static_cast<double>(at(t).bytes) / w.link.in;
        auto& list = issued_[issued_at(starts, first, use, next_begin)];
        list.insert(list.begin(), t);
      }
    }
  }

private:
  static constexpr std::size_t least_bytes = std::size_t{5} << 20U;

  [[nodiscard]] bool offloaded(std::size_t t) const { return at(t).bytes >= least_bytes; }

  void before(std::size_t segment) override {
    for (const std::size_t t : issued_[segment]) {
      cuda.join(lane::second_copies, lane::compute);
      cuda.copy_in(t, lane::second_copies);
      arrived_[t] = cuda.record(lane::second_copies);
      holds_again(t, {kind::segment_ends, layer.backward(at(t).micro_batch, 0).last});
    }
    for (const std::size_t t : returning(segment)) {
      if (offloaded(t)) cuda.wait(lane::compute, arrived_[t]);
    }
  }
  void after(std::size_t segment) override {
    for (const std::size_t t : leaving(segment)) {
      if (!offloaded(t)) {
        keep(t);
        continue;
      }
      cuda.join(lane::first_copies, lane::compute);
      cuda.copy_out(t, lane::first_copies);
      cuda.join(lane::compute, lane::first_copies);
      holds_until(t, now());
    }
  }

  std::vector<std::vector<std::size_t>> issued_;  // before a segment
  std::vector<cuda_step::mark> arrived_;
};

template <class Step>
cuda_step::result run(const workload& w) {
  return Step(w).run();
}

}  // namespace

const std::vector<peer>& peers() {
  static const std::vector<peer> all{
      {"synchronous", "PyTorch save_on_cpu: both copies on the compute stream", run<synchronous>},
      {"torchtune", "a stash of 5 in flight, no prefetch, one side stream", run<torchtune>},
      {"transformer-engine", "v2, static windows, n = L - 2, one side stream", run<transformer_engine>},
      {"megatron", "groups of a layer, 2 in flight, next group at the start of a group's backward", run<megatron>},
      {"xla", "pipelined, one iteration ahead, constant copy cost", run<xla>},
      {"pytorch", "compiled, copies in by a bandwidth rule, one side stream", run<pytorch>},
      {"deepspeed", "DeepCompile, waits for copies out, keeps what is reloaded to the end", run<deepspeed>}};
  return all;
}

}  // namespace schedules
