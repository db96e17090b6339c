#include <hostoffload/virtual_gpu/detail/simulator.hpp>

#include <algorithm>

namespace hostoffload::inline v0::virtual_gpu::detail {

simulator::simulator(const machine& m, int devices, completion& effects)
    : machine_(m), effects_(effects), devices_(static_cast<std::size_t>(devices)) {}

pending_operation& simulator::take() {
  if (unused_.empty()) {
    all_.push_back(std::make_unique<pending_operation>());
    return *all_.back();
  }
  pending_operation& op = *unused_.back();
  unused_.pop_back();
  return op;
}

void simulator::block(pending_operation& op, pending_operation* by) {
  if (by == nullptr) return;
  by->blocks.push_back(&op);
  ++op.blocked_by;
}

void simulator::enqueue(pending_operation& op) {
  stream& s = *op.on;
  if (s.tail != nullptr) {
    s.tail->next = &op;
    s.tail = &op;
  } else {
    s.head = s.tail = &op;
    reach(op, std::max(op.enqueued, s.last_end));
  }
}

double simulator::next() const noexcept {
  double at = unbounded;
  if (!timers_.empty()) at = timers_.top().at;
  for (const auto* op : copies_) at = std::min(at, op->finish);
  for (const auto& d : devices_) {
    for (const auto* op : d.kernels) at = std::min(at, op->finish);
  }
  return at;
}

void simulator::step() {
  now_ = std::max(now_, next());
  const auto due = [this](pending_operation* op) {
    if (op->finish > now_) return false;
    finished_.push_back(op);
    return true;
  };
  finished_.clear();
  std::erase_if(copies_, due);
  for (auto& d : devices_) std::erase_if(d.kernels, due);
  if (!finished_.empty()) rates_changed_ = true;
  for (auto* op : finished_) complete(*op);

  while (!timers_.empty() && timers_.top().at <= now_) {
    pending_operation& op = *timers_.top().op;
    timers_.pop();
    switch (op.at) {
      case phase::reach:
        arrived_.push_back(&op);
        break;
      case phase::latency:
        begin_flow(op);
        break;
      default:
        complete(op);
        break;  // what uses nothing, after its latency
    }
  }
  settle();
}

// All that happens without time passing. Engines choose only when nothing else can become ready at this moment.
void simulator::settle() {
  do {
    while (!arrived_.empty() || !ready_.empty()) {
      auto& list = arrived_.empty() ? ready_ : arrived_;
      pending_operation& op = *list.back();
      list.pop_back();
      if (&list == &arrived_) {
        arrive(op);
      } else {
        ready(op);
      }
    }
    for (auto& d : devices_) {
      start_engine(d.to_device);
      start_engine(d.to_host);
    }
  } while (!arrived_.empty() || !ready_.empty());
  if (rates_changed_) set_rates();
}

void simulator::schedule(pending_operation& op, phase at, double when) {
  op.at = at;
  timers_.push({when, order_++, &op});
}

void simulator::reach(pending_operation& op, double at) {
  if (at > now_) {
    schedule(op, phase::reach, at);
  } else {
    arrived_.push_back(&op);
  }
}

void simulator::arrive(pending_operation& op) {
  op.at = phase::queued;
  op.reached = true;
  op.reached_at = op.start = now_;
  if (op.blocked_by == 0) ready(op);
}

void simulator::ready(pending_operation& op) {
  op.ready = now_;
  switch (op.uses) {
    case resource::none:
      if (op.kind == operation_kind::wait && now_ > op.reached_at) {
        schedule(op, phase::wait_latency, now_ + machine_.wait_latency.value + op.delay);
      } else if (op.delay > 0) {
        schedule(op, phase::wait_latency, now_ + op.delay);
      } else {
        complete(op);
      }
      break;
    case resource::compute:
    case resource::memory:
      op.start = now_;
      schedule(op, phase::latency, now_ + machine_.kernel_latency.value + op.delay);
      break;
    default:
      op.at = phase::engine;
      engine_of(op).queue.push_back(&op);
      break;
  }
}

simulator::engine& simulator::engine_of(const pending_operation& op) {
  device& d = devices_[static_cast<std::size_t>(op.on->device)];
  return op.uses == resource::copy_engine_to_device ? d.to_device : d.to_host;
}

void simulator::start_engine(engine& e) {
  if (e.busy != nullptr || e.queue.empty()) return;
  const auto first = std::min_element(e.queue.begin(), e.queue.end(), [](const auto* a, const auto* b) {
    if (a->ready != b->ready) return a->ready < b->ready;
    if (a->on->priority != b->on->priority) return a->on->priority < b->on->priority;  // lower number, higher priority
    return a->call < b->call;
  });
  pending_operation& op = **first;
  e.queue.erase(first);
  e.busy = &op;
  op.start = now_;
  const bool queued = e.last_end == now_ && op.enqueued < now_;
  const auto& latency = !queued      ? machine_.link.first_latency
                        : op.batched ? machine_.link.batched_latency
                                     : machine_.link.queued_latency;
  schedule(op, phase::latency, now_ + latency.value + op.delay);
}

void simulator::begin_flow(pending_operation& op) {
  device& d = devices_[static_cast<std::size_t>(op.on->device)];
  const bool copy = op.uses == resource::copy_engine_to_device || op.uses == resource::copy_engine_to_host;
  if (!copy) op.alone = std::max({op.compute_seconds, op.memory_bytes / machine_.hbm.value, op.least_seconds});
  op.remaining = copy ? op.link_bytes : op.alone;
  if (op.remaining <= 0) return complete(op);
  op.at = phase::flow;
  op.speed = 0;
  op.updated = now_;
  op.finish = unbounded;
  (copy ? copies_ : d.kernels).push_back(&op);
  rates_changed_ = true;
}

void simulator::complete(pending_operation& op) {
  stream& s = *op.on;
  s.head = op.next;
  if (s.head == nullptr) s.tail = nullptr;
  s.done = op.tick;
  s.last_end = now_;
  if (op.uses == resource::copy_engine_to_device || op.uses == resource::copy_engine_to_host) {
    engine& e = engine_of(op);
    e.busy = nullptr;
    e.last_end = now_;
  }
  effects_.completed(op, now_);
  for (auto* blocked : op.blocks) {
    if (--blocked->blocked_by == 0 && blocked->reached) ready_.push_back(blocked);
  }
  if (s.head != nullptr) reach(*s.head, s.head->enqueued);

  op.blocks.clear();
  op.does.clear();
  static_cast<operation_state&>(op) = {};
  unused_.push_back(&op);
}

void simulator::set_speed(pending_operation& op, double speed) const {
  if (speed == op.speed) return;  // keeps `finish` exact
  op.remaining = std::max(0.0, op.remaining - op.speed * (now_ - op.updated));
  op.updated = now_;
  op.speed = speed;
  op.finish = now_ + op.remaining / speed;
}

void simulator::set_rates() {
  rates_changed_ = false;
  for (auto& d : devices_) d.copy_traffic = 0;
  share_links();
  for (auto& d : devices_) {
    double sms = 0;
    double memory = 0;
    for (const auto* op : d.kernels) {
      sms += op->compute_seconds / op->alone;
      memory += op->memory_bytes / op->alone;
    }
    // A link faster than the HBM leaves a little, so that kernels go on.
    const double left = std::max(machine_.hbm.value - d.copy_traffic, machine_.hbm.value * 1e-3);
    double factor = 1;
    if (sms > 1) factor = std::min(factor, 1 / sms);
    if (memory > left) factor = std::min(factor, left / memory);
    for (auto* op : d.kernels) set_speed(*op, factor);
  }
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
