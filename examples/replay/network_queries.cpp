#include "network.hpp"
#include "tensor_range.hpp"

namespace replay {

void network::define_grouped(layer& l) {
  const auto make_qkv = [this, &l](bytes q, bytes k, bytes v) -> ho::task<> {
    const auto cost = rank_.making(l.index, {tensor::q, tensor::k, tensor::v});
    const double rows = rank_.rows();
    auto x = co_await *l.input;
    norm(range(x), hidden());
    rank_.quantise(rows * hidden(), work().normed.all());
    for (const bytes out : {q, k, v}) {
      rank_.kernel("qkv",
                   replay::product(rows, hidden(), width(out, rank_), rank_.operand_bytes(), rank_.how().products),
                   {work().normed.all(), rank_.weights()}, {range(out)});
    }
    for (const bytes turned : {q, k}) {
      if (rank_.what().grouped->head_norms) {
        rank_.kernel("norm", replay::norm(rows, width(turned, rank_)), {range(turned)}, {range(turned)});
      }
      rank_.kernel("rope", rope(rows, width(turned, rank_)), {range(turned)}, {range(turned)});
    }
  };
  ho::define_group(make_qkv, *l.q, *l.k, *l.v);
}

ho::task<> network::backward_grouped(layer& l) {
  const double rows = rank_.rows();
  for (const array* d : {&work().d_q, &work().d_k}) {
    const double wide = width(d->bytes(), rank_);
    rank_.kernel("rope", rope(rows, wide), {d->all()}, {d->all()});
    if (rank_.what().grouped->head_norms) {
      rank_.kernel("norm_backward", replay::norm_backward(rows, wide), {d->all()}, {d->all()});
    }
  }
  auto x = co_await std::move(*l.input);
  norm(range(x), hidden());
  for (const array* d : {&work().d_q, &work().d_k, &work().d_v}) {
    backward_product(rows, hidden(), width(d->bytes(), rank_), d->all(), work().normed.all(), work().d_normed.all());
  }
  norm_backward(range(x), hidden());
}

void network::define_latent(layer& l) {
  const auto make_down = [this, &l](bytes q_a, bytes kv_a) -> ho::task<> {
    const auto cost = rank_.making(l.index, {tensor::q_a, tensor::kv_a});
    auto x = co_await *l.input;
    norm(range(x), hidden());
    rank_.quantise(rank_.rows() * hidden(), work().normed.all());
    for (const bytes out : {q_a, kv_a}) {
      rank_.kernel(
          "down_projection",
          replay::product(rank_.rows(), hidden(), width(out, rank_), rank_.operand_bytes(), rank_.how().products),
          {work().normed.all(), rank_.weights()}, {range(out)});
    }
  };
  ho::define_group(make_down, *l.q_a, *l.kv_a);

  l.q->define([this, &l](bytes q) -> ho::task<> {
    const auto cost = rank_.making(l.index, {tensor::q});
    const latent_attention& a = *rank_.what().latent;
    auto low = co_await *l.q_a;
    norm(range(low), static_cast<double>(a.q_rank));
    product("up_projection", rank_.rows(), static_cast<double>(a.q_rank), width(q, rank_), work().normed.all(),
            range(q));
    rank_.kernel("rope", rope(rank_.rows(), static_cast<double>(a.heads * a.rope_size)), {range(q)}, {range(q)});
  });

  const auto make_kv = [this, &l](bytes k, bytes v) -> ho::task<> {
    const auto cost = rank_.making(l.index, {tensor::k, tensor::v});
    const latent_attention& a = *rank_.what().latent;
    const ho::byte_range both = work().kv_up.all();
    auto low = co_await *l.kv_a;
    norm(range(low), static_cast<double>(a.kv_rank));
    product("up_projection", rank_.rows(), static_cast<double>(a.kv_rank), width(both.bytes, rank_),
            work().normed.all(), both);
    rank_.kernel("split_kv", move_rows(rank_.rows(), rank_.rows(), width(both.bytes, rank_)), {both, range(low)},
                 {range(k), range(v)});
  };
  ho::define_group(make_kv, *l.k, *l.v);
}

ho::task<> network::backward_latent(layer& l) {
  const latent_attention& a = *rank_.what().latent;
  const double rows = rank_.rows();
  const double q_rank = static_cast<double>(a.q_rank);
  const double kv_rank = static_cast<double>(a.kv_rank);
  rank_.kernel("rope", rope(rows, static_cast<double>(a.heads * a.rope_size)), {work().d_q.all()}, {work().d_q.all()});
  {
    auto low = co_await std::move(*l.q_a);
    norm(range(low), q_rank);
    backward_product(rows, q_rank, width(work().d_q.bytes(), rank_), work().d_q.all(), work().normed.all(),
                     work().d_q_a.all());
    rank_.kernel("norm_backward", replay::norm_backward(rows, q_rank), {range(low), work().d_q_a.all()},
                 {work().d_q_a.all()});
  }
  {
    auto low = co_await std::move(*l.kv_a);
    const ho::byte_range both = work().d_kv_up.all();
    norm(range(low), kv_rank);
    rank_.kernel("join_kv", move_rows(rows, rows, width(both.bytes, rank_)), {work().d_k.all(), work().d_v.all()},
                 {both, work().d_kv_a.all()});
    backward_product(rows, kv_rank, width(both.bytes, rank_), both, work().normed.all(), work().d_kv_a.all());
    rank_.kernel("norm_backward", replay::norm_backward(rows, kv_rank), {range(low), work().d_kv_a.all()},
                 {work().d_kv_a.all()});
  }
  auto x = co_await std::move(*l.input);
  norm(range(x), hidden());
  for (const array* d : {&work().d_q_a, &work().d_kv_a}) {
    backward_product(rows, hidden(), width(d->bytes(), rank_), d->all(), work().normed.all(), work().d_normed.all());
  }
  norm_backward(range(x), hidden());
}

}  // namespace replay
