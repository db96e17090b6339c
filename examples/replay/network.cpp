#include "network.hpp"

#include "tensor_range.hpp"

namespace replay {

network::network(rank& on, ho::prefetch_scheduler& scheduler) : rank_(on), scheduler_(scheduler) {
  const std::size_t count = on.what().layers;
  for (std::size_t i = 0; i < count; ++i) {
    layers_.push_back(std::make_unique<layer>(scheduler, on.options(), ho::layer_position{i, count}));
  }
  for (const auto& l : layers_) define(*l);
}

void network::product(const char* name, double rows, double inputs, double outputs, ho::byte_range from,
                      ho::byte_range to, double weight_sets) {
  rank_.quantise(rows * inputs, from);
  rank_.kernel(name, replay::product(rows, inputs, outputs, rank_.operand_bytes(), rank_.how().products, weight_sets),
               {from, rank_.weights()}, {to});
}

void network::backward_product(double rows, double inputs, double outputs, ho::byte_range d, ho::byte_range x,
                               ho::byte_range d_x, double weight_sets) {
  const double stored = rank_.operand_bytes();
  const ho::precision rate = rank_.how().products;
  const ho::byte_range sums = rank_.gradients();
  rank_.quantise(rows * outputs, d);
  rank_.quantise(rows * inputs, x);
  rank_.kernel("weight_gradient", weight_gradient(rows, inputs, outputs, stored, rate, weight_sets), {d, x}, {sums});
  // From outputs to inputs. NOLINTNEXTLINE(readability-suspicious-call-argument)
  rank_.kernel("input_gradient", replay::product(rows, outputs, inputs, stored, rate, weight_sets),
               {d, rank_.weights()}, {d_x});
}

void network::norm(ho::byte_range from, double width) {
  rank_.kernel("norm", replay::norm(rank_.rows(), width), {from}, {work().normed.all()});
}
void network::norm_backward(ho::byte_range from, double width) {
  rank_.kernel("norm_backward", replay::norm_backward(rank_.rows(), width), {from, work().d_normed.all()},
               {work().d_stream.all()});
}

void network::define(layer& l) {
  if (l.index == 0) {
    l.input->define([this](bytes out) {
      const auto cost = rank_.making(0, {tensor::input});
      rank_.kernel("embed", move_rows(rank_.rows(), rank_.rows(), hidden()), {rank_.vocabulary().all()}, {range(out)});
    });
  } else {
    layer& before = *layers_[l.index - 1];
    l.input->define([this, &l, &before](bytes out) -> ho::task<> {
      const auto cost = rank_.making(l.index, {tensor::input});
      co_await add_ffn(before, range(out));
    });
  }
  if (rank_.what().latent) {
    define_latent(l);
  } else {
    define_grouped(l);
  }
  define_attention(l);
  define_ffn(l);
}

void network::define_attention(layer& l) {
  const auto make_attention = [this, &l](bytes context, bytes lse) -> ho::task<> {
    const auto cost = rank_.making(l.index, {tensor::attention, tensor::lse});
    auto q = co_await *l.q;
    auto k = co_await *l.k;
    auto v = co_await *l.v;
    rank_.kernel("attention",
                 replay::attention(rank_.rows(), static_cast<double>(rank_.how().sequence), width(q, rank_),
                                   width(k, rank_), width(v, rank_), width(context, rank_)),
                 {range(q), range(k), range(v)}, {range(context), range(lse)});
  };
  ho::define_group(make_attention, *l.attention, *l.lse);

  l.attention_out->define([this, &l](bytes out) -> ho::task<> {
    const auto cost = rank_.making(l.index, {tensor::attention_out});
    auto context = co_await *l.attention;
    auto x = co_await *l.input;
    product("attention_out", rank_.rows(), width(context, rank_), hidden(), range(context), range(out));
    rank_.kernel("add", move_rows(2 * rank_.rows(), rank_.rows(), hidden()), {range(x), range(out)}, {range(out)});
  });
}

/// In the order of making. Keeps what is placed so.
ho::task<> network::keep(layer& l, ho::choice placed, leases& kept) {
  const auto add = [&kept, placed](auto& t) -> ho::task<> {
    if (!t.is(placed)) co_return;
    auto lease = co_await *t;
    kept.push_back(std::move(lease));
  };
  co_await add(l.q_a);
  co_await add(l.kv_a);
  co_await add(l.q);
  co_await add(l.k);
  co_await add(l.v);
  co_await add(l.attention);
  co_await add(l.lse);
  co_await add(l.attention_out);
  co_await add(l.router);
  co_await add(l.routed);
  co_await add(l.gate);
  co_await add(l.up);
  co_await add(l.act);
}

/// What is used again before the layer's end is kept until then, so that it is dropped once; so is what was made beside
/// another tensor and is not used before the backward pass.
ho::task<> network::forward() {
  rank_.gather_vocabulary();
  rank_.network().join();
  leases kept;
  for (const auto& l : layers_) {
    auto x = co_await *l->input;
    x.end();
    kept.clear();
    rank_.enter(l->index);
    auto behind_attention = co_await *l->attention_out;
    kept.push_back(std::move(behind_attention));
    if (l->lse.is(ho::choice::remat)) {
      auto lse = co_await *l->lse;
      lse.end();
    }
    if (l->router.is(ho::choice::remat)) {
      auto router = co_await *l->router;
      kept.push_back(std::move(router));
    }
  }
  co_await add_ffn(*layers_.back(), work().last.all());
  if (!rank_.what().tied) rank_.gather_vocabulary();
  rank_.network().join();
}

void network::backward_head() {
  const double rows = rank_.rows();
  const auto vocabulary = static_cast<double>(rank_.what().vocabulary);
  const ho::byte_range logits = work().logits.all();
  norm(work().last.all(), hidden());
  rank_.kernel("head", replay::product(rows, hidden(), vocabulary, bf16_bytes, ho::precision::bf16),
               {work().normed.all(), rank_.vocabulary().all()}, {logits});
  rank_.kernel("cross_entropy", cross_entropy(rows, vocabulary), {logits}, {});
  rank_.kernel("cross_entropy_backward", cross_entropy_backward(rows, vocabulary), {logits}, {logits});
  rank_.kernel("weight_gradient", weight_gradient(rows, hidden(), vocabulary, bf16_bytes, ho::precision::bf16),
               {logits, work().normed.all()}, {rank_.vocabulary_gradient().all()});
  rank_.kernel("input_gradient", replay::product(rows, vocabulary, hidden(), bf16_bytes, ho::precision::bf16),
               {logits, rank_.vocabulary().all()}, {work().d_normed.all()});
  norm_backward(work().last.all(), hidden());
  if (!rank_.what().tied) rank_.scatter_vocabulary();
}

ho::task<> network::backward_attention(layer& l) {
  const double rows = rank_.rows();
  auto context = co_await std::move(*l.attention);
  auto lse = co_await std::move(*l.lse);
  backward_product(rows, width(context, rank_), hidden(), work().d_stream.all(), range(context),
                   work().d_attention.all());
  auto q = co_await std::move(*l.q);
  auto k = co_await std::move(*l.k);
  auto v = co_await std::move(*l.v);
  rank_.attention_backward(context.size() + lse.size() + q.size() + k.size() + v.size());
  rank_.kernel(
      "attention_backward",
      replay::attention_backward(rows, static_cast<double>(rank_.how().sequence), width(q, rank_), width(k, rank_),
                                 width(v, rank_), width(context, rank_), rank_.options().with.attention_backward),
      {range(q), range(k), range(v), range(context), range(lse), work().d_attention.all()},
      {work().d_q.all(), work().d_k.all(), work().d_v.all()});
}

ho::task<> network::backward_layer(layer& l, std::size_t use) {
  rank_.enter(use);
  leases kept;
  if (rank_.options().when.whole_layers) co_await keep(l, ho::choice::offload, kept);
  co_await backward_ffn(l);
  co_await backward_attention(l);
  if (rank_.what().latent) {
    co_await backward_latent(l);
  } else {
    co_await backward_grouped(l);
  }
  rank_.scatter_gradients(l.index);
}

ho::task<> network::step() {
  rank_.account().begin_step();
  co_await forward();
  backward_head();
  const std::size_t count = layers_.size();
  for (std::size_t i = count; i-- > 0;) co_await backward_layer(*layers_[i], 2 * count - 1 - i);
  rank_.account().last_use();
  rank_.network().drain();  // the sums of the head's gradient read what is written now
  rank_.kernel("embed_backward", move_rows(rank_.rows(), rank_.rows(), hidden()), {work().d_stream.all()},
               {rank_.vocabulary_gradient().all()});
  rank_.scatter_vocabulary();
  rank_.finish_step();
}

}  // namespace replay
