// The replay's layers against the trainer's: the same sizes and placement do the same matrix products and copy the same
// bytes.

#include "layer.hpp"
#include "network.hpp"
#include "rank.hpp"

#include <llama/training.hpp>

#include <hostoffload/virtual_gpu/control.hpp>

#include "catch.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace {

namespace vg = hostoffload::virtual_gpu;
using hostoffload::choice;
using replay::tensor;

struct done {
  double product_flops = 0;
  std::size_t bytes_out = 0, bytes_in = 0;
};

/// Of what the timeline holds and the counters count: one step.
done count() {
  done d;
  for (const vg::operation& op : vg::timeline()) {
    if (op.name.rfind("attention", 0) != 0 || op.name == "attention_out") d.product_flops += op.flops;
  }
  d.bytes_out = vg::bytes_copied(vg::direction::to_host).bytes;
  d.bytes_in = vg::bytes_copied(vg::direction::to_device).bytes;
  return d;
}

void begin_counting() {
  hostoffload::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  vg::clear_timeline();
  vg::reset_call_counts();
}

constexpr std::size_t batch = 2;
constexpr std::size_t window = std::size_t{1} << 20U;

llama::sizes sizes() {
  llama::sizes s;
  s.layers = 3;
  s.hidden = 64;
  s.heads = 4;
  s.kv_heads = 2;
  s.ffn = 96;
  s.sequence = 16;
  s.vocabulary = 256;
  return s;
}

done train(llama::plan placement) {
  vg::reset(vg::gb200());
  llama::training_options o;
  o.model = sizes();
  o.placement = placement;
  o.batch = batch;
  o.window = window;
  const auto data = llama::token_stream::from_text(LLAMA_TEST_TEXT);
  const auto run = llama::make_training(o, data);
  run->step();
  run->step();
  begin_counting();
  run->step();
  return count();
}

done replayed(const replay::placements& placed) {
  vg::reset(vg::gb200(), 1, vg::mode::dry);
  const llama::sizes s = sizes();
  replay::run_options o;
  o.of.what.layers = s.layers;
  o.of.what.hidden = s.hidden;
  o.of.what.vocabulary = s.vocabulary;
  o.of.what.ffn = s.ffn;
  o.of.what.grouped = replay::grouped_attention{s.heads, s.kv_heads, s.head_size(), false};
  o.of.how.sequence = s.sequence;
  o.of.how.micro_batch = batch;
  o.placed = placed;
  replay::rank rank(o, vg::gb200());
  hostoffload::prefetch_scheduler scheduler({.compute = rank.compute(), .window = window});
  replay::network network(rank, scheduler);
  const auto step = [&network] { return network.step(); };
  scheduler.run(step);
  scheduler.run(step);
  begin_counting();
  scheduler.run(step);
  hostoffload::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  for (const auto& f : vg::findings()) FAIL_CHECK(f.message);
  return count();
}

/// As the table of the trainer's that has this name.
replay::placements as_table(choice of_most) {
  replay::placements placed = replay::place({}, choice::remat);
  for (const tensor t :
       {tensor::q, tensor::k, tensor::v, tensor::attention, tensor::lse, tensor::gate, tensor::up, tensor::act}) {
    placed[replay::index_of(t)] = of_most;
  }
  placed[replay::index_of(tensor::attention_out)] = choice::save;
  return placed;
}

/// The trainer also uploads its tokens and downloads its loss.
constexpr std::size_t tokens_and_targets = 2 * batch * 16 * sizeof(int);
constexpr std::size_t loss = sizeof(double);

}  // namespace

TEST_CASE("offload: the trainer's products and copies") {
  const done trainer = train(llama::plan::offload);
  const done replay = replayed(as_table(choice::offload));
  CHECK(trainer.bytes_out > 50000);
  CHECK(replay.bytes_out + loss == trainer.bytes_out);
  CHECK(replay.bytes_in + tokens_and_targets == trainer.bytes_in);
  CHECK(replay.product_flops == trainer.product_flops);
}

TEST_CASE("remat: the trainer's products, with what is computed again") {
  const done trainer = train(llama::plan::remat);
  const done replay = replayed(as_table(choice::remat));
  CHECK(replay.bytes_out == 0);
  CHECK(replay.product_flops == trainer.product_flops);
  CHECK(replay.product_flops > 1.1 * replayed(as_table(choice::save)).product_flops);
}
