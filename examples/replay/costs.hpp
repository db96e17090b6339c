#pragma once
// What each definition of a step costs the compute stream, and where the step turns: for planners.

#include "tensors.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace replay {

struct making_cost {
  std::size_t layer = 0;
  std::vector<tensor> makes;
  double seconds = 0;  // without those of the definitions that it waits for
};

struct step_costs {
  std::vector<making_cost> makings;  // in the order of the forward pass
  double lead_s = 0;                 // until the first tensor is made
  double forward_s = 0;              // until the backward pass of the last layer's attention, with what is waited for
  double backward_s = 0;             // from then on, without waiting for collectives
  double tail_s = 0;                 // of it, behind the last tensor's last use
  std::size_t leased_bytes = 0;      // of tensors that the attention's backward pass needs at one time
  std::size_t device_bytes = 0;      // in use beside the tensors
};

/// Adds up kernels, each with the time that it takes alone, in the order of the calls.
class cost_account {
public:
  void begin_step() {
    costs_ = {};
    turned_ = past_last_use_ = false;
  }
  void add(double seconds) {
    (turned_ ? costs_.backward_s : costs_.forward_s) += seconds;
    if (past_last_use_) costs_.tail_s += seconds;
    if (open_ != nullptr) open_->seconds += seconds;
  }
  /// The attention's backward pass begins, with leases of so many bytes. Whether it is the first one in the step, which
  /// counts.
  bool attention_backward(std::size_t leased) {
    if (std::exchange(turned_, true)) return false;
    costs_.leased_bytes = leased;
    return true;
  }
  void last_use() { past_last_use_ = true; }
  [[nodiscard]] const step_costs& costs() const { return costs_; }

  /// While it lives, what is added belongs to one definition, but for what other scopes take that begin and end in
  /// between.
  class scope {
  public:
    scope(cost_account& account, std::size_t layer, std::vector<tensor> makes)
        : account_(account), cost_{layer, std::move(makes)}, outer_(std::exchange(account.open_, &cost_)) {}
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope() {
      step_costs& all = account_.costs_;
      if (all.makings.empty()) all.lead_s = all.forward_s;
      all.makings.push_back(std::move(cost_));
      account_.open_ = outer_;
    }

  private:
    cost_account& account_;
    making_cost cost_;
    making_cost* outer_;
  };

private:
  step_costs costs_;
  making_cost* open_ = nullptr;
  bool turned_ = false, past_last_use_ = false;
};

}  // namespace replay
