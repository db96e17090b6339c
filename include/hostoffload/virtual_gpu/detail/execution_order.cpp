#include <hostoffload/virtual_gpu/detail/execution_order.hpp>

#include <utility>

namespace hostoffload::inline v0::virtual_gpu::detail {

void execution_order::choose(std::uint64_t seed) {
  if (seed == 0) finish_all();
  seed_ = seed;
  random_.seed(seed);
}

void execution_order::defer(effect& e, lane in_lane, std::uint64_t tick, const vector_clock& clock, int device) {
  if (e.kind == effect::action::nothing) return;
  if (unused_.empty()) unused_.push_back(std::make_unique<deferred>());
  auto d = std::move(unused_.back());
  unused_.pop_back();
  d->does.swap(e);
  d->clock = clock;
  d->tick = tick;
  d->device = device;
  if (in_lane >= lanes_.size()) {
    lanes_.resize(in_lane + std::size_t{1});
    late_.resize(lanes_.size());
  }
  lanes_[in_lane].push_back(std::move(d));
  ++waiting_;
  if (waiting_ > most) run_down_to(most / 2);
}

bool execution_order::ready(lane l) const {
  if (lanes_[l].empty()) return false;
  const vector_clock& clock = lanes_[l].front()->clock;
  for (lane other = 0; other < lanes_.size(); ++other) {
    if (other != l && !lanes_[other].empty() && clock.after(other, lanes_[other].front()->tick)) return false;
  }
  return true;
}

bool execution_order::any_known(const vector_clock& known) const {
  for (lane l = 0; l < lanes_.size(); ++l) {
    if (!lanes_[l].empty() && known.after(l, lanes_[l].front()->tick)) return true;
  }
  return false;
}

void execution_order::finish(const vector_clock& known) {
  if (waiting_ == 0) return;
  change_mind();
  while (any_known(known)) run_one();
  while (waiting_ > 0 && random_() % 4 != 0) run_one();  // as a device may, before the host looks
}

void execution_order::run_down_to(std::size_t left) {
  change_mind();
  while (waiting_ > left) run_one();
}

// Whole streams run ahead of others for a while: single steps by turns would seldom leave one far behind.
void execution_order::change_mind() {
  for (auto& late : late_) late = static_cast<char>(random_() % 2);
}

// Of the operations in front of their streams the one that was enqueued first is always ready.
void execution_order::run_one() {
  if (random_() % 16 == 0) change_mind();
  early_ready_.clear();
  late_ready_.clear();
  for (lane l = 0; l < lanes_.size(); ++l) {
    if (ready(l)) (late_[l] != 0 ? late_ready_ : early_ready_).push_back(l);
  }
  const auto& choice = early_ready_.empty() ? late_ready_ : early_ready_;
  queue& from = lanes_[choice[random_() % choice.size()]];
  auto d = std::move(from.front());
  from.pop_front();
  --waiting_;
  d->does.perform();
  d->does.clear();
  unused_.push_back(std::move(d));
}

void execution_order::forget(int device) {
  for (auto& q : lanes_) {
    waiting_ -= std::erase_if(q, [device](const std::unique_ptr<deferred>& d) { return d->device == device; });
  }
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
