// How copies that run at one time share links and host memories.

#include <hostoffload/virtual_gpu/detail/simulator.hpp>

#include <algorithm>
#include <cmath>

namespace hostoffload::inline v0::virtual_gpu::detail {

// A bound over the copies in flow of one device (dev ≥ 0) or one host memory, in the directions given.
void simulator::add_bound(double capacity, int host, int dev, bool to_device, bool to_host) {
  const std::size_t first = bound_members_.size();
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    const auto& op = *copies_[i];
    const int on = op.on->device;
    const bool direction = op.uses == resource::copy_engine_to_device ? to_device : to_host;
    if (direction && (dev >= 0 ? on == dev : host_of(on) == host)) bound_members_.push_back(i);
  }
  bounds_.push_back({capacity, first, bound_members_.size() - first});
}

// Max-min fairness by filling up: all rates grow alike until a bound is reached, whose copies then keep their rate.
void simulator::share_links() {
  if (copies_.empty()) return;
  bounds_.clear();
  bound_members_.clear();
  const link_rates& link = machine_.link;
  for (const auto* op : copies_) {
    const int dev = op->on->device;
    const bool to_device = op->uses == resource::copy_engine_to_device;
    add_bound(to_device ? link.to_device.value : link.to_host.value, 0, dev, to_device, !to_device);
    const auto other = [&](const auto* o) { return o->on->device == dev && o->uses != op->uses; };
    if (to_device && std::any_of(copies_.begin(), copies_.end(), other))
      add_bound(2 * link.both.value, 0, dev, true, true);
  }
  const int hosts = host_of(static_cast<int>(devices_.size()) - 1) + 1;
  for (int host = 0; host < hosts && devices_.size() > 1; ++host) {
    const pending_operation* first = nullptr;
    bool several = false;
    for (const auto* op : copies_) {
      if (host_of(op->on->device) != host) continue;
      several = several || (first != nullptr && first->on->device != op->on->device);
      if (first == nullptr) first = op;
    }
    if (!several) continue;
    add_bound(link.all_to_device.value, host, -1, true, false);
    const bool any_to_device = bounds_.back().count > 0;
    add_bound(link.all_to_host.value, host, -1, false, true);
    const bool any_to_host = bounds_.back().count > 0;
    if (any_to_device && any_to_host) add_bound(link.all_both.value, host, -1, true, true);
  }

  shares_.assign(copies_.size(), 0);
  fixed_.assign(copies_.size(), 0);
  for (std::size_t left = copies_.size(); left > 0;) {
    double level = unbounded;
    const bound* tightest = nullptr;
    for (const auto& b : bounds_) {
      double used = 0;
      std::size_t growing = 0;
      for (std::size_t i = 0; i < b.count; ++i) {
        const std::size_t member = bound_members_[b.first + i];
        if (fixed_[member] != 0) {
          used += shares_[member];
        } else {
          ++growing;
        }
      }
      if (growing == 0) continue;
      const double free = std::isinf(b.capacity) ? b.capacity : std::max(0.0, b.capacity - used);
      const double share = free / static_cast<double>(growing);
      if (tightest == nullptr || share < level) {
        level = share;
        tightest = &b;
      }
    }
    for (std::size_t i = 0; i < tightest->count; ++i) {
      const std::size_t member = bound_members_[tightest->first + i];
      if (fixed_[member] != 0) continue;
      fixed_[member] = 1;
      shares_[member] = level;
      --left;
    }
  }
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    set_speed(*copies_[i], shares_[i]);
    if (std::isfinite(shares_[i]))
      devices_[static_cast<std::size_t>(copies_[i]->on->device)].copy_traffic += shares_[i];
  }
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
