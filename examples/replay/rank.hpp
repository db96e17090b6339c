#pragma once
// What one rank has beside its layers' tensors: its streams and kernels, its part of the trained arrays, room for what
// is gathered from the others, and workspace.

#include "arithmetic.hpp"
#include "costs.hpp"
#include "run.hpp"
#include "work.hpp"

#include <collectives/virtual_collectives.hpp>

#include <hostoffload/hostoffload.hpp>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

namespace replay {

/// Device memory, and how much of it somebody has waited for.
class array {
public:
  explicit array(std::size_t bytes) : memory_(std::max<std::size_t>(bytes, 1)), ready_(memory_.region().bytes) {}
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_.region().begin); }
  [[nodiscard]] std::size_t bytes() const { return memory_.region().bytes; }
  /// What a kernel declares to read. Bytes that are under way in the time of the run, although it depends on them, are
  /// taken to have come in time.
  [[nodiscard]] ho::byte_range ready() const { return {data(), ready_}; }
  [[nodiscard]] ho::byte_range all() const { return {data(), bytes()}; }
  void set_ready(std::size_t bytes) { ready_ = bytes; }

private:
  ho::device_allocation memory_;
  std::size_t ready_;
};

/// The communication stream. A share of each collective is waited for where it is issued, the rest at the next join().
class exchange {
public:
  exchange(cudaStream_t compute, double exposed) : compute_(compute), exposed_(exposed) {}

  enum class when { joined, deferred };

  /// Calls collective(stream, offset, bytes) for the share that the compute stream waits for now, and for the rest; all
  /// behind what the compute stream has been given. What is deferred is not waited for by join(), only by drain().
  /// Returns how many of the bytes are waited for.
  template <class Collective>
  std::size_t issue(std::size_t bytes, when waited, Collective&& collective) {
    issued_.operator ho::event_ref().record(compute_);
    issued_.operator ho::event_ref().hold(stream_.get());
    const auto now = std::min(bytes, static_cast<std::size_t>(exposed_ * static_cast<double>(bytes)));
    if (now > 0) {
      collective(stream_.get(), std::size_t{0}, now);
      drain();
    }
    if (now < bytes) collective(stream_.get(), now, bytes - now);
    if (waited == when::joined) done_.operator ho::event_ref().record(stream_.get());
    return now;
  }

  void join() const { done_.operator ho::event_ref().hold(compute_); }
  void drain() {
    last_.operator ho::event_ref().record(stream_.get());
    last_.operator ho::event_ref().hold(compute_);
  }
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }

private:
  cudaStream_t compute_;
  double exposed_;
  ho::stream stream_;
  ho::event issued_, done_, last_;
};

/// Device memory that is written and read within one layer, or once between forward and backward; used again by each.
struct workspace {
  workspace(const model& m, const layout& how);

  array normed, last, logits, d_stream, d_normed;
  array d_q, d_k, d_v, d_attention;
  array kv_up, d_kv_up, d_q_a, d_kv_a;  // latent attention
  array d_gate, d_up, d_act;
  array quantised;  // the largest operand, by rows and by columns
  struct passage {
    explicit passage(std::size_t bytes) : send(bytes), receive(bytes) {}
    array send, receive;
    bool under_way = false;
  };
  passage dispatch, combine, back;  // rows to their experts, to their tokens, and gradients to the tokens
  array grouped;                    // rows sorted by expert, behind the experts or their gradient
};

class rank {
public:
  /// `each_alone`: a kernel takes the time that it takes alone, whatever else uses the device.
  rank(const run_options& o, const vgpu::machine& machine, bool each_alone = false);

  [[nodiscard]] cudaStream_t compute() const { return compute_.get(); }
  [[nodiscard]] const model& what() const { return options_.of.what; }
  [[nodiscard]] const layout& how() const { return options_.of.how; }
  [[nodiscard]] const run_options& options() const { return options_; }
  [[nodiscard]] double rows() const { return static_cast<double>(how().tokens()); }
  [[nodiscard]] double operand_bytes() const { return std::min(bf16_bytes, element_bytes(how().products)); }
  [[nodiscard]] bool quantises() const { return operand_bytes() < bf16_bytes; }

  void kernel(const char* name, const amount& a, std::initializer_list<ho::byte_range> reads,
              std::initializer_list<ho::byte_range> writes);
  /// What low-precision products read; nothing where they read bf16.
  void quantise(double elements, ho::byte_range from);

  /// Weights, in the order of their use in a step: layers upwards, then downwards. Enters the n-th use.
  void enter(std::size_t n);
  [[nodiscard]] ho::byte_range weights() const { return gathered_[in_use_].ready(); }
  /// Room for the gradients of the layer in use; waits for the sums that still read it.
  [[nodiscard]] ho::byte_range gradients();
  void scatter_gradients(std::size_t layer);

  void gather_vocabulary();
  void scatter_vocabulary();
  /// To be called before p.send is written. all_to_all() may leave its bytes under way to the end of the layer.
  void reuse(workspace::passage& p);
  void all_to_all(workspace::passage& p);

  /// Of the definition that begins: these tensors of one layer.
  [[nodiscard]] cost_account::scope making(std::size_t layer, std::vector<tensor> makes) {
    return {account_, layer, std::move(makes)};
  }
  [[nodiscard]] cost_account& account() { return account_; }
  /// The last layer's, which comes first, begins with leases of so many bytes: the moment that a planner looks at.
  void attention_backward(std::size_t leased) {
    if (account_.attention_backward(leased)) looked_at_.operator ho::event_ref().record(compute());
  }
  [[nodiscard]] ho::event_ref looked_at() const { return looked_at_; }

  /// Waits for the sums, updates the weights.
  void finish_step();

  [[nodiscard]] workspace& work() { return work_; }
  [[nodiscard]] exchange& network() { return exchange_; }
  [[nodiscard]] const array& vocabulary() const { return vocabulary_; }
  [[nodiscard]] const array& vocabulary_gradient() const { return vocabulary_gradient_; }

private:
  void gather(std::size_t n);
  void scatter(const array& from, double bytes_of_all, double bytes_of_experts);
  /// Bytes per element times the parameters of a layer that are divided over all ranks, and over those of its experts.
  struct division {
    double all = 0, experts = 0;
  };
  [[nodiscard]] division divide(std::size_t layer, double bytes) const;
  [[nodiscard]] std::size_t layer_at(std::size_t n) const { return n < layers_ ? n : 2 * layers_ - 1 - n; }

  run_options options_;
  vgpu::machine machine_;
  bool each_alone_;
  cost_account account_;
  ho::event looked_at_{ho::event_use::timing};
  std::size_t layers_;
  ho::stream compute_;
  exchange exchange_;
  std::unique_ptr<collectives::communicator> all_, fsdp_, experts_;
  array weights_, moments_, gradient_sums_;
  std::vector<array> gathered_, gradients_;
  std::vector<ho::event> summed_;
  array quantised_weights_;
  array vocabulary_, vocabulary_gradient_;
  workspace work_;
  std::size_t in_use_ = 0;
  std::size_t gradient_ = 0;
  bool gradients_open_ = false;
};

}  // namespace replay
