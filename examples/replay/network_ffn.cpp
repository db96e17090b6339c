#include "network.hpp"
#include "tensor_range.hpp"

namespace replay {
namespace {

double real(std::size_t n) { return static_cast<double>(n); }

/// The two parts of a feed-forward block: rows that pass routed experts, and rows that pass all of the other.
struct blocks {
  blocks(const rank& on, bool routes) : rows(on.rows()) {
    const model& m = on.what();
    plain_width = real(m.ffn);
    if (!routes) return;
    routed_rows = rows * real(m.moe->top_k);
    routed_width = real(m.moe->width);
    sets = real(m.moe->count / on.how().expert_parallel);
    plain_width = real(m.moe->shared * m.moe->width);
  }
  double rows, plain_width = 0;
  double routed_rows = 0, routed_width = 0, sets = 0;  // 0: dense
  [[nodiscard]] double elements() const { return rows * plain_width + routed_rows * routed_width; }
};

}  // namespace

void network::define_ffn(layer& l) {
  if (l.routes) {
    const auto make_routed = [this, &l](bytes router, bytes routed) -> ho::task<> {
      const auto cost = rank_.making(l.index, {tensor::router, tensor::routed});
      const blocks b(rank_, true);
      const ho::byte_range normed = work().normed.all();
      auto x = co_await *l.attention_out;
      norm(range(x), hidden());
      rank_.kernel("router",
                   replay::product(b.rows, hidden(), real(rank_.what().moe->count), bf16_bytes, ho::precision::bf16),
                   {normed, rank_.weights()}, {range(router)});
      rank_.reuse(work().dispatch);
      rank_.kernel("permute", move_rows(b.routed_rows, b.routed_rows, hidden()), {normed, range(router)},
                   {work().dispatch.send.all()});
      rank_.all_to_all(work().dispatch);
      rank_.kernel("group", move_rows(b.routed_rows, b.routed_rows, hidden()), {work().dispatch.receive.ready()},
                   {range(routed)});
    };
    ho::define_group(make_routed, *l.router, *l.routed);
  }

  const auto make_gate_up = [this, &l](bytes gate, bytes up) -> ho::task<> {
    const auto cost = rank_.making(l.index, {tensor::gate, tensor::up});
    const blocks b(rank_, l.routes);
    const double stored = rank_.operand_bytes();
    if (l.routes) {
      auto rows = co_await *l.routed;
      rank_.quantise(b.routed_rows * hidden(), range(rows));
      for (const bytes out : {gate, up}) {
        rank_.kernel("experts",
                     replay::product(b.routed_rows, hidden(), b.routed_width, stored, rank_.how().products, b.sets),
                     {range(rows), rank_.weights()}, {range(out)});
      }
    }
    auto x = co_await *l.attention_out;
    norm(range(x), hidden());
    if (b.plain_width == 0) co_return;
    rank_.quantise(b.rows * hidden(), work().normed.all());
    for (const bytes out : {gate, up}) {
      rank_.kernel("gate_up", replay::product(b.rows, hidden(), b.plain_width, stored, rank_.how().products),
                   {work().normed.all(), rank_.weights()}, {range(out)});
    }
  };
  ho::define_group(make_gate_up, *l.gate, *l.up);

  l.act->define([this, &l](bytes out) -> ho::task<> {
    const auto cost = rank_.making(l.index, {tensor::act});
    auto gate = co_await *l.gate;
    auto up = co_await *l.up;
    rank_.kernel("swiglu", swiglu(blocks(rank_, l.routes).elements()), {range(gate), range(up)}, {range(out)});
  });
}

ho::task<> network::add_ffn(layer& l, ho::byte_range out) {
  const blocks b(rank_, l.routes);
  auto act = co_await *l.act;
  auto x = co_await *l.attention_out;
  if (b.plain_width > 0) product("down", b.rows, b.plain_width, hidden(), range(act), out);
  if (l.routes) {
    workspace::passage& p = work().combine;
    product("experts", b.routed_rows, b.routed_width, hidden(), range(act), work().grouped.all(), b.sets);
    rank_.reuse(p);
    rank_.kernel("ungroup", move_rows(b.routed_rows, b.routed_rows, hidden()), {work().grouped.all()}, {p.send.all()});
    rank_.all_to_all(p);
    rank_.kernel("unpermute", move_rows(b.routed_rows, b.rows, hidden()), {p.receive.ready(), range(act)}, {out});
  }
  rank_.kernel("add", move_rows(2 * b.rows, b.rows, hidden()), {range(x), out}, {out});
}

ho::task<> network::backward_ffn(layer& l) {
  const blocks b(rank_, l.routes);
  const ho::byte_range grouped = work().grouped.all();
  const ho::byte_range d_act = work().d_act.all();
  {
    auto act = co_await std::move(*l.act);
    if (l.routes) {
      workspace::passage& p = work().combine;
      rank_.reuse(p);
      rank_.kernel("permute", move_rows(b.rows, b.routed_rows, hidden()), {work().d_stream.all()}, {p.send.all()});
      rank_.all_to_all(p);
      rank_.kernel("group", move_rows(b.routed_rows, b.routed_rows, hidden()), {p.receive.ready()}, {grouped});
      backward_product(b.routed_rows, b.routed_width, hidden(), grouped, range(act), d_act, b.sets);
    }
    if (b.plain_width > 0) {
      backward_product(b.rows, b.plain_width, hidden(), work().d_stream.all(), range(act), d_act);
    }
  }
  {
    auto gate = co_await std::move(*l.gate);
    auto up = co_await std::move(*l.up);
    rank_.kernel("swiglu_backward", swiglu_backward(b.elements()), {range(gate), range(up), d_act},
                 {work().d_gate.all(), work().d_up.all()});
  }
  if (l.routes) {
    auto rows = co_await std::move(*l.routed);
    for (const array* d : {&work().d_gate, &work().d_up}) {
      backward_product(b.routed_rows, hidden(), b.routed_width, d->all(), range(rows), grouped, b.sets);
    }
    auto chosen = co_await std::move(*l.router);
    workspace::passage& p = work().back;
    rank_.reuse(p);
    rank_.kernel("ungroup", move_rows(b.routed_rows, b.routed_rows, hidden()), {grouped}, {p.send.all()});
    rank_.all_to_all(p);
    rank_.kernel("unpermute", move_rows(b.routed_rows, b.rows, hidden()), {p.receive.ready(), range(chosen)},
                 {work().d_normed.all()});
  }
  auto x = co_await std::move(*l.attention_out);
  norm(range(x), hidden());
  if (b.plain_width > 0) {
    for (const array* d : {&work().d_gate, &work().d_up}) {
      backward_product(b.rows, hidden(), b.plain_width, d->all(), work().normed.all(), work().d_normed.all());
    }
  }
  if (l.routes) {
    const double all = real(rank_.what().moe->count);
    const ho::byte_range sums = rank_.gradients();
    rank_.kernel("router", weight_gradient(b.rows, hidden(), all, bf16_bytes, ho::precision::bf16),
                 {work().normed.all()}, {sums});
    rank_.kernel("router", replay::product(b.rows, all, hidden(), bf16_bytes, ho::precision::bf16), {rank_.weights()},
                 {work().d_normed.all()});
  }
  norm_backward(range(x), hidden());
}

}  // namespace replay
