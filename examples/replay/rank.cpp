#include "rank.hpp"

#include <cmath>

namespace replay {
namespace {

std::size_t whole(double bytes) { return static_cast<std::size_t>(bytes); }

/// All layers of a kind are alike, and the last is of the second kind.
std::size_t largest(const model& m, tensor t, std::size_t tokens) {
  return std::max(tensor_bytes(m, 0, t, tokens), tensor_bytes(m, m.layers - 1, t, tokens));
}

double largest_layer(const model& m, std::size_t expert_parallel) {
  return std::max(layer_parameters(m, 0, expert_parallel), layer_parameters(m, m.layers - 1, expert_parallel));
}

collectives::network network_of(const assumptions& a, const vgpu::machine& m) {
  // Two sizes of an all-reduce give latency and rate; both are passes of twice the bytes. Other machines: in proportion
  // to their links.
  const double slope = (2 * 1e9 / a.all_reduce_1gb - 2 * 256e6 / a.all_reduce_256mb) / (2 * (1e9 - 256e6));
  const double latency = (2 * 256e6 / a.all_reduce_256mb - 2 * 256e6 * slope) / 2;
  const double links = m.peer.value / vgpu::gb200().peer.value;
  return {links / slope, links * a.all_to_all, latency};
}

/// By rows and by columns.
std::size_t quantised_bytes(const model& m, const layout& how) {
  if (element_bytes(how.products) >= bf16_bytes) return 0;
  const std::size_t operand = std::max({largest(m, tensor::input, how.tokens()), largest(m, tensor::gate, how.tokens()),
                                        largest(m, tensor::routed, how.tokens())});
  return whole(static_cast<double>(operand) / bf16_bytes * 2 * element_bytes(how.products));
}

}  // namespace

workspace::workspace(const model& m, const layout& how)
    : normed(largest(m, tensor::input, how.tokens())),
      last(normed.bytes()),
      logits(2 * how.tokens() * m.vocabulary),
      d_stream(normed.bytes()),
      d_normed(normed.bytes()),
      d_q(largest(m, tensor::q, how.tokens())),
      d_k(largest(m, tensor::k, how.tokens())),
      d_v(largest(m, tensor::v, how.tokens())),
      d_attention(largest(m, tensor::attention, how.tokens())),
      kv_up(m.latent ? 2 * how.tokens() * m.latent->heads * (m.latent->nope_size + m.latent->value_size) : 0),
      d_kv_up(kv_up.bytes()),
      d_q_a(largest(m, tensor::q_a, how.tokens())),
      d_kv_a(largest(m, tensor::kv_a, how.tokens())),
      d_gate(largest(m, tensor::gate, how.tokens())),
      d_up(d_gate.bytes()),
      d_act(d_gate.bytes()),
      quantised(quantised_bytes(m, how)),
      dispatch(largest(m, tensor::routed, how.tokens())),
      combine(largest(m, tensor::routed, how.tokens())),
      back(largest(m, tensor::routed, how.tokens())),
      grouped(largest(m, tensor::routed, how.tokens())) {}

rank::rank(const run_options& o, const vgpu::machine& machine, bool each_alone)
    : options_(o),
      machine_(machine),
      each_alone_(each_alone),
      layers_(o.of.what.layers),
      exchange_(compute_.get(), o.when.exposed),
      all_(collectives::make_virtual_communicator(o.of.how.devices(), 0, network_of(o.with, machine))),
      fsdp_(collectives::make_virtual_communicator(o.of.how.fsdp, 0, network_of(o.with, machine))),
      experts_(collectives::make_virtual_communicator(o.of.how.expert_parallel, 0, network_of(o.with, machine))),
      weights_(0),
      moments_(0),
      gradient_sums_(0),
      quantised_weights_(0),
      vocabulary_(0),
      vocabulary_gradient_(0),
      work_(o.of.what, o.of.how) {
  const layout& l = how();
  const std::size_t kept = whole(std::ceil(count_parameters(what()).total / static_cast<double>(l.devices())));
  weights_ = array(kept * l.weight_bytes);
  moments_ = array(kept * 2 * l.moment_bytes);
  gradient_sums_ = array(kept * l.gradient_bytes);
  const double layer = largest_layer(what(), l.expert_parallel);
  for (std::size_t i = 0; i < o.when.buffers; ++i) {
    gathered_.emplace_back(whole(layer * element_bytes(l.gathered)));
    gradients_.emplace_back(whole(layer * bf16_bytes));
    summed_.emplace_back();
  }
  if (quantises()) {  // by rows, unless the weights come so, and by columns
    quantised_weights_ = array(whole(layer * operand_bytes() * (l.gathered == l.products ? 1 : 2)));
  }
  const std::size_t table = 2 * what().vocabulary * what().hidden;
  vocabulary_ = array(table);
  vocabulary_gradient_ = array(table);
  const auto zero = [this](const array& a) {
    ho::check(cudaMemsetAsync(a.data(), 0, a.bytes(), compute()), "cudaMemsetAsync");
  };
  for (const array* a : {&weights_, &moments_, &gradient_sums_, &vocabulary_, &work_.dispatch.receive,
                         &work_.combine.receive, &work_.back.receive}) {
    zero(*a);
  }
  for (const array& a : gathered_) zero(a);
  exchange_.drain();
  for (const ho::event& e : summed_) ho::event_ref(e).record(compute());
}

void rank::kernel(const char* name, const amount& a, std::initializer_list<ho::byte_range> reads,
                  std::initializer_list<ho::byte_range> writes) {
  const double arithmetic = a.flops > 0 ? a.flops / machine_.rate(static_cast<hostoffload_precision>(a.rate)).value : 0;
  const double alone = std::max(arithmetic, a.bytes / machine_.hbm.value);
  account_.add(alone);
  const auto nothing = [](std::size_t) {};
  if (each_alone_) {  // with next to no part of the HBM's rate
    ho::launch(compute(), 1, nothing,
               ho::work{.name = name, .reads = reads, .writes = writes, .bytes = 1, .seconds = alone});
    return;
  }
  ho::launch(
      compute(), 1, nothing,
      ho::work{.name = name, .reads = reads, .writes = writes, .flops = a.flops, .bytes = a.bytes, .rate = a.rate});
}

void rank::quantise(double elements, ho::byte_range from) {
  if (quantises()) kernel("quantise", replay::quantise(elements, operand_bytes()), {from}, {work_.quantised.all()});
}

rank::division rank::divide(std::size_t layer, double bytes) const {
  const model& m = what();
  double own = 0;
  if (m.has_experts(layer)) {
    own = count_parameters(m).expert * static_cast<double>(m.moe->count / how().expert_parallel);
  }
  return {bytes * (layer_parameters(m, layer, how().expert_parallel) - own), bytes * own};
}

void rank::gather(std::size_t n) {
  array& into = gathered_[n % gathered_.size()];
  const division d = divide(layer_at(n), element_bytes(how().gathered));
  const auto part = [&](collectives::communicator& group, double of_all, std::size_t from) {
    const auto bytes = static_cast<std::size_t>(of_all / static_cast<double>(group.ranks()));
    if (bytes == 0) return std::size_t{0};
    const std::size_t waited =
        exchange_.issue(bytes, exchange::when::joined, [&](cudaStream_t on, std::size_t offset, std::size_t size) {
          group.all_gather(on, weights_.data(), into.data() + from + offset * group.ranks(), size);
        });
    return waited * group.ranks();
  };
  const std::size_t waited = part(*all_, d.all, 0);
  part(*fsdp_, d.experts, whole(d.all));
  into.set_ready(gathered_.size() > 1 ? into.bytes() : waited);
}

void rank::enter(std::size_t n) {
  const bool ahead = gathered_.size() > 1;
  if (ahead && n == 0) gather(n);
  exchange_.join();
  if (!ahead) gather(n);
  for (workspace::passage* p : {&work_.dispatch, &work_.combine, &work_.back}) p->under_way = false;
  in_use_ = n % gathered_.size();
  if (ahead && n + 1 < 2 * layers_) gather(n + 1);
  gradients_open_ = false;
  if (quantises()) {
    const double elements = layer_parameters(what(), layer_at(n), how().expert_parallel);
    const double bytes = how().gathered == how().products ? 2 * operand_bytes() : bf16_bytes + 2 * operand_bytes();
    kernel("quantise_weights", {0, elements * bytes}, {weights()}, {quantised_weights_.all()});
  }
}

ho::byte_range rank::gradients() {
  if (!gradients_open_) {
    gradient_ = (gradient_ + 1) % gradients_.size();
    summed_[gradient_].operator ho::event_ref().hold(compute());
    gradients_open_ = true;
  }
  return gradients_[gradient_].all();
}

void rank::scatter(const array& from, double bytes_of_all, double bytes_of_experts) {
  const auto part = [&](collectives::communicator& group, double of_all, std::size_t at) {
    const auto elements = static_cast<std::size_t>(of_all / bf16_bytes / static_cast<double>(group.ranks()));
    if (elements == 0) return;
    exchange_.issue(elements, exchange::when::deferred, [&](cudaStream_t on, std::size_t offset, std::size_t size) {
      const std::byte* begin = from.data() + at + offset * group.ranks() * static_cast<std::size_t>(bf16_bytes);
      group.reduce_scatter(on, begin, gradient_sums_.data(), size, collectives::element::bf16);
    });
  };
  part(*all_, bytes_of_all, 0);
  part(*fsdp_, bytes_of_experts, whole(bytes_of_all));
}

void rank::scatter_gradients(std::size_t layer) {
  const division d = divide(layer, bf16_bytes);
  scatter(gradients_[gradient_], d.all, d.experts);
  summed_[gradient_].operator ho::event_ref().record(exchange_.stream());
}

void rank::gather_vocabulary() {
  const double bytes = static_cast<double>(what().vocabulary * what().hidden) * element_bytes(how().gathered);
  const auto each = static_cast<std::size_t>(bytes / static_cast<double>(all_->ranks()));
  exchange_.issue(each, exchange::when::joined, [&](cudaStream_t on, std::size_t offset, std::size_t size) {
    all_->all_gather(on, weights_.data(), vocabulary_.data() + offset * all_->ranks(), size);
  });
}

void rank::scatter_vocabulary() { scatter(vocabulary_gradient_, static_cast<double>(vocabulary_gradient_.bytes()), 0); }

void rank::reuse(workspace::passage& p) {
  if (p.under_way) exchange_.join();
  p.under_way = false;
}

void rank::all_to_all(workspace::passage& p) {
  const std::size_t ranks = experts_->ranks();
  const std::size_t waited = exchange_.issue(
      p.send.bytes() / ranks, exchange::when::joined, [&](cudaStream_t on, std::size_t offset, std::size_t size) {
        experts_->all_to_all(on, p.send.data() + offset * ranks, p.receive.data() + offset * ranks, size);
      });
  p.receive.set_ready(waited * ranks);
  p.under_way = waited * ranks < p.send.bytes() / ranks * ranks;
}

void rank::finish_step() {
  exchange_.drain();
  const layout& l = how();
  const double kept = count_parameters(what()).total / static_cast<double>(l.devices());
  kernel("adamw",
         adamw(kept, static_cast<double>(l.weight_bytes), static_cast<double>(l.moment_bytes),
               static_cast<double>(l.gradient_bytes)),
         {weights_.all(), moments_.all(), gradient_sums_.all()}, {weights_.all(), moments_.all()});
  account_.add(options_.of.fixed_seconds);
  const auto nothing = [](std::size_t) {};
  ho::launch(compute(), 1, nothing, ho::work{.name = "rest_of_the_step", .seconds = options_.of.fixed_seconds});
}

}  // namespace replay
