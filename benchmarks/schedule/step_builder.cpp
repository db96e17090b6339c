#include "step_builder.hpp"

#include <cmath>
#include <numeric>
#include <utility>

namespace schedules {
namespace {

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

double layer_shape::work() const { return sum(forward) + sum(backward); }

step_builder::step_builder(std::string name, std::vector<layer_shape> layers, std::size_t micro_batches)
    : layers_(std::move(layers)), tensors_(micro_batches, std::vector<std::vector<std::size_t>>(layers_.size())) {
  w_.name = std::move(name);
  for (const layer_shape& l : layers_) w_.layers += l.tensors.empty() ? 0U : 1U;
  w_.micro_batches = micro_batches;
}

void step_builder::forward(std::size_t micro_batch) {
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const std::size_t first = w_.segments.size();
    for (const double work : layers_[l].forward) w_.segments.push_back({work / rate_, pass::forward, l, micro_batch});
    for (const layer_tensor& t : layers_[l].tensors) {
      tensor made{t.name, l, micro_batch, static_cast<std::size_t>(std::llround(t.bytes)), first + t.made, {}};
      for (const std::size_t use : t.forward_uses) made.used_in.push_back(first + use);
      tensors_[micro_batch][l].push_back(w_.tensors.size());
      w_.tensors.push_back(std::move(made));
    }
  }
}

void step_builder::backward(std::size_t micro_batch) {
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const std::size_t first = w_.segments.size();
    for (const double work : layers_[l].backward) w_.segments.push_back({work / rate_, pass::backward, l, micro_batch});
    for (std::size_t i = 0; i < layers_[l].tensors.size(); ++i) {
      tensor& t = w_.tensors[tensors_[micro_batch][l][i]];
      for (const std::size_t use : layers_[l].tensors[i].backward_uses) t.used_in.push_back(first + use);
    }
  }
}

void step_builder::idle(double seconds) { w_.segments.push_back({seconds, pass::idle, 0, 0}); }

void step_builder::all_in_turn() {
  for (std::size_t m = 0; m < w_.micro_batches; ++m) {
    forward(m);
    backward(m);
  }
}

double step_builder::forward_work() const {
  return std::accumulate(layers_.begin(), layers_.end(), 0.0,
                         [](double all, const layer_shape& l) { return all + sum(l.forward); });
}

double step_builder::backward_work() const {
  return std::accumulate(layers_.begin(), layers_.end(), 0.0,
                         [](double all, const layer_shape& l) { return all + sum(l.backward); });
}

workload step_builder::finish(std::string machine, const link_rates& link, std::string source) {
  w_.machine = std::move(machine);
  w_.link = link;
  w_.source = std::move(source);
  check(w_);
  return std::move(w_);
}

}  // namespace schedules
