#include "peer_step.hpp"

#include <algorithm>

namespace schedules {

passes::passes(const workload& w) {
  for (const tensor& t : w.tensors) layers_ = std::max(layers_, t.layer + 1);
  const std::size_t n = w.segments.size();
  forward_.resize(layers_ * w.micro_batches);
  backward_.resize(layers_ * w.micro_batches);
  for (by_segment* all : {&forward_first_, &forward_last_, &backward_first_, &backward_last_}) all->resize(n);
  std::vector<bool> seen_forward(forward_.size()), seen_backward(backward_.size());
  for (std::size_t i = 0; i < n; ++i) {
    const segment& s = w.segments[i];
    if (s.of == pass::idle || s.layer >= layers_) continue;
    const std::size_t key = s.micro_batch * layers_ + s.layer;
    const bool is_forward = s.of == pass::forward;
    layer_pass& p = (is_forward ? forward_ : backward_)[key];
    auto&& seen = (is_forward ? seen_forward : seen_backward)[key];
    if (!seen) p.first = i;
    seen = true;
    p.last = i;
  }
  for (std::size_t m = 0; m < w.micro_batches; ++m) {
    for (std::size_t l = 0; l < layers_; ++l) {
      const std::size_t key = m * layers_ + l;
      forward_first_[forward_[key].first] = forward_last_[forward_[key].last] = pass_of_layer{l, m};
      backward_first_[backward_[key].first] = backward_last_[backward_[key].last] = pass_of_layer{l, m};
    }
  }
}

peer_step::peer_step(const workload& w)
    : cuda(w),
      layer(w),
      leaving_(w.segments.size()),
      returning_(w.segments.size()),
      of_layer_(layer.layers() * w.micro_batches) {
  for (std::size_t t = 0; t < w.tensors.size(); ++t) {
    leaving_[gap_of(t).after].push_back(t);
    returning_[gap_of(t).before].push_back(t);
    of_layer_[at(t).micro_batch * layer.layers() + at(t).layer].push_back(t);
  }
  for (auto& tensors : of_layer_) {
    std::stable_sort(tensors.begin(), tensors.end(),
                     [this](std::size_t a, std::size_t b) { return gap_of(a).before < gap_of(b).before; });
  }
}

cuda_step::result peer_step::run() {
  cuda.begin();
  for (std::size_t i = 0; i < cuda.step_of().segments.size(); ++i) {
    before(i);
    cuda.launch(i);
    after(i);
  }
  return cuda.end();
}

void peer_step::keep(std::size_t t) {
  cuda.holds(t, {kind::segment_begins, at(t).made_in}, {{kind::segment_ends, at(t).used_in.back()}});
}

void peer_step::holds_until(std::size_t t, moment freed) {
  cuda.holds(t, {kind::segment_begins, at(t).made_in}, {freed, {kind::segment_ends, gap_of(t).after}});
}

void peer_step::holds_again(std::size_t t) { holds_again(t, {kind::segment_ends, at(t).used_in.back()}); }

void peer_step::holds_again(std::size_t t, moment freed) { cuda.holds(t, {kind::copy_in_begins, t}, {freed}); }

}  // namespace schedules
