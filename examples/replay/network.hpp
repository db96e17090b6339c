#pragma once
// The model's forward and backward pass: what examples/llama and examples/moe do, with each kernel's work in place of
// its arithmetic.

#include "layer.hpp"
#include "rank.hpp"

#include <memory>
#include <vector>

namespace replay {

class network {
public:
  network(rank& on, ho::prefetch_scheduler& scheduler);

  /// One step, to the updated weights.
  ho::task<> step();

private:
  using bytes = std::span<std::byte>;

  // network.cpp: the passes, and what latent and grouped attention share
  using leases = std::vector<ho::lease<const std::byte>>;

  ho::task<> forward();
  ho::task<> keep(layer& l, ho::choice placed, leases& kept);
  ho::task<> backward_layer(layer& l, std::size_t use);
  ho::task<> backward_attention(layer& l);
  void backward_head();
  void define(layer& l);
  void define_attention(layer& l);

  // network_queries.cpp: how q, k and v come from the layer's input
  void define_grouped(layer& l);
  void define_latent(layer& l);
  ho::task<> backward_grouped(layer& l);
  ho::task<> backward_latent(layer& l);

  // network_ffn.cpp: the feed-forward block, dense or of experts
  void define_ffn(layer& l);
  ho::task<> add_ffn(layer& l, ho::byte_range out);
  ho::task<> backward_ffn(layer& l);

  /// [rows, inputs] to [rows, outputs] with the layer's weights, in the model's precision.
  void product(const char* name, double rows, double inputs, double outputs, ho::byte_range from, ho::byte_range to,
               double weight_sets = 1);
  /// Gradients of such a product: of its weights, then of its input. `d` is that of its output.
  void backward_product(double rows, double inputs, double outputs, ho::byte_range d, ho::byte_range x,
                        ho::byte_range d_x, double weight_sets = 1);
  void norm(ho::byte_range from, double width);
  void norm_backward(ho::byte_range from, double width);

  [[nodiscard]] double hidden() const { return static_cast<double>(rank_.what().hidden); }
  [[nodiscard]] workspace& work() { return rank_.work(); }

  rank& rank_;
  ho::prefetch_scheduler& scheduler_;
  std::vector<std::unique_ptr<layer>> layers_;
};

}  // namespace replay
