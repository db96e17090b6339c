// A training step of a Llama under each placement and window: time, as a multiple of the step that saves everything,
// and memory. Each run's losses must be those of `save`, to the last bit. On the virtual GPU a small model stands for
// one of hidden size 8192 on a machine that is scaled alike; on a GPU the model is larger.

#include "device.hpp"

#include "training.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace {

namespace ho = hostoffload;

enum class window : std::uint8_t { least, two_layers, four_layers, unlimited };

constexpr std::string_view to_string(window w) {
  constexpr std::string_view names[] = {"least", "2_layers", "4_layers", "unlimited"};
  return names[static_cast<std::size_t>(w)];
}

#if defined(__CUDACC__)
llama::sizes model() {
  return {.layers = 8,
          .hidden = 2048,
          .heads = 16,
          .kv_heads = 4,
          .ffn = 7168,
          .sequence = 256};  // short: attention is a thread per query head
}
void fresh_device(const llama::sizes&) {}
#else
llama::sizes model() { return {}; }

/// So that every run begins at time zero on an empty device.
void fresh_device(const llama::sizes& shape) {
  namespace vg = ho::virtual_gpu;
  static const vg::machine full = vg::current_machine();
  vg::reset(vg::scaled_to(full, {.hidden = static_cast<double>(shape.hidden), .full_hidden = 8192}));
  vg::record_timeline(false);
}
#endif

const examples::token_stream& text() {
  static const auto tokens = examples::token_stream::from_text(HOSTOFFLOAD_BENCH_TEXT);
  return tokens;
}

llama::training_options options_for(llama::plan p) {
  llama::training_options o;
  o.model = model();
  o.placement = p;
  o.batch = 4;
  return o;
}

std::size_t bytes_of(window w, const llama::training_options& o) {
  const std::size_t of_layer = llama::offloaded_bytes_per_layer(o);
  if (w == window::two_layers) return 2 * of_layer;
  if (w == window::four_layers) return 4 * of_layer;
  if (w == window::unlimited) return ho::unlimited;
  fresh_device(o.model);
  const auto run = llama::make_training(o, text());
  for (int i = 0; i < 3; ++i) run->step();
  return run->report().least_window_bytes;
}

constexpr std::size_t warm_up = 3;
constexpr std::size_t measured = 5;

/// Of the run that saves everything: the median time and all losses.
struct {
  double seconds = 0;
  std::vector<double> losses;
} saved;

std::map<std::pair<llama::plan, window>, double> ratios;

void step(benchmark::State& state, llama::plan p, window w) {
  llama::training_options o = options_for(p);
  if (p != llama::plan::save && p != llama::plan::remat) o.window = bytes_of(w, o);
  fresh_device(o.model);
  const auto run = llama::make_training(o, text());
  std::vector<double> losses;
  for (std::size_t i = 0; i < warm_up; ++i) losses.push_back(run->step());
  std::vector<double> times;
  for (auto _ : state) {
    const double began = bench::host_seconds();
    losses.push_back(run->step());  // waits for the device
    times.push_back(bench::host_seconds() - began);
    state.SetIterationTime(times.back());
  }
  const double seconds = bench::median(times);
  if (p == llama::plan::save) {
    saved = {seconds, losses};
  } else if (!saved.losses.empty() && losses != saved.losses) {
    state.SkipWithError("the losses are not those of save");
    return;
  }
  const ho::step_report report = run->report();
  constexpr double mib = 1 << 20U;
  state.counters["TFLOP/s"] = llama::step_flops(o.model, o.batch * o.model.sequence) / seconds / 1e12;
  state.counters["window_MiB"] = static_cast<double>(report.window_bytes) / mib;
  state.counters["device_MiB"] = static_cast<double>(report.device_peak_bytes) / mib;
  state.counters["host_MiB"] = static_cast<double>(report.host_peak_bytes) / mib;
  state.counters["late"] = static_cast<double>(report.late_fetches);
  if (saved.seconds > 0) {
    state.counters["of_save"] = seconds / saved.seconds;
    ratios[{p, w}] = seconds / saved.seconds;
  }
}

void add(llama::plan p, window w) {
  std::string name(llama::to_string(p));
  if (p != llama::plan::save && p != llama::plan::remat) name += '/' + std::string(to_string(w));
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { step(s, p, w); })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(measured);
}

void register_all() {
  add(llama::plan::save, window::unlimited);
  add(llama::plan::remat, window::unlimited);
  for (const window w : {window::least, window::two_layers, window::four_layers, window::unlimited}) {
    add(llama::plan::offload, w);
    add(llama::plan::mixed, w);
  }
  add(llama::plan::offload_naive, window::four_layers);
}

void summarise() {
  const auto remat = ratios.find({llama::plan::remat, window::unlimited});
  for (const auto& [what, ratio] : ratios) {
    std::cerr << llama::to_string(what.first);
    if (what.first != llama::plan::save && what.first != llama::plan::remat) {
      std::cerr << ", window " << to_string(what.second);
    }
    std::cerr << ": " << ratio << " times the step that saves everything";
    if (remat != ratios.end()) std::cerr << ", " << ratio / remat->second << " times remat";
    std::cerr << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, register_all, summarise); }
