// How much of the copies' time kernels hide, and what the copies cost the kernels: copies to the host, from it and
// both, beside kernels that are bound by arithmetic and by memory. Alone, kernels and copies take about the same time.
// On the virtual GPU nothing is computed and copied: it only takes its time.

#include "device.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace {

namespace ho = hostoffload;

enum class bound : std::uint8_t { compute, memory };
enum class way : std::uint8_t { out, in, both };

constexpr std::string_view to_string(bound b) { return b == bound::compute ? "compute" : "memory"; }
constexpr std::string_view to_string(way w) {
  constexpr std::array<std::string_view, 3> names{"out", "in", "both"};
  return names.at(static_cast<std::size_t>(w));
}

constexpr std::size_t elements = std::size_t{1} << 26U;  // 256 MiB of floats
constexpr std::size_t copy_bytes = std::size_t{16} << 20U;
constexpr std::size_t kernels = 8;

/// A product and a sum in registers, 2048 times for each of `n` threads.
void compute(cudaStream_t stream, float* out, std::size_t n) {
  constexpr int rounds = 2048;
  ho::launch(stream, n,
             [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
               float x = static_cast<float>(i);
               for (int r = 0; r < rounds; ++r) x = x * 0.999F + 0.5F;
               out[i] = x;
             },
             {.name = "compute", .writes = {{out, n * sizeof *out}}, .flops = 2.0 * rounds * static_cast<double>(n)});
}

/// Reads and writes each element once.
void memory(cudaStream_t stream, const float* in, float* out, std::size_t n) {
  ho::launch(stream, n, [=] HOSTOFFLOAD_DEVICE(std::size_t i) { out[i] = in[i] + 1; },
             {.name = "memory", .reads = {{in, n * sizeof *in}}, .writes = {{out, n * sizeof *out}}});
}

/// Device and host memory, and what is enqueued in one measurement.
class setup {
public:
  setup() {
    ho::check(cudaMemset(in_.region().begin, 0, in_.region().bytes), "cudaMemset");
    ho::check(cudaMemset(leaving_.region().begin, 0, copy_bytes), "cudaMemset");
    ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  /// Seconds from the latch's end to the end of the kernels, and to the end of the copies: 0 for what is not enqueued.
  struct times {
    double kernels = 0, copies = 0;
    [[nodiscard]] double all() const { return std::max(kernels, copies); }
  };
  times measure(bool with_kernels, bound b, std::size_t copies, way w) {
    bench::latch latch;
    const ho::event begin(ho::event_use::timing);
    std::array<ho::event, 3> ends{ho::event(ho::event_use::timing), ho::event(ho::event_use::timing),
                                  ho::event(ho::event_use::timing)};
    latch.close(compute_.get());
    ho::event_ref(begin).record(compute_.get());
    for (const ho::stream* s : {&out_, &in_stream_}) ho::event_ref(begin).hold(s->get());
    for (std::size_t k = 0; with_kernels && k < kernels; ++k) launch(b);
    for (std::size_t c = 0; c < copies; ++c) {
      if (w != way::in) copy(host_out_, leaving_, cudaMemcpyDeviceToHost, out_);
      if (w != way::out) copy(arriving_, host_in_, cudaMemcpyHostToDevice, in_stream_);
    }
    const std::array<cudaStream_t, 3> streams{compute_.get(), out_.get(), in_stream_.get()};
    for (std::size_t s = 0; s < streams.size(); ++s) ho::event_ref(ends.at(s)).record(streams.at(s));
    latch.open();
    ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    times measured;
    if (with_kernels) measured.kernels = bench::seconds_between(begin, ends[0]);
    if (copies != 0) {
      measured.copies = std::max(bench::seconds_between(begin, ends[1]), bench::seconds_between(begin, ends[2]));
    }
    return measured;
  }

private:
  void launch(bound b) {
    auto* const out = static_cast<float*>(result_.region().begin);
    if (b == bound::compute) {
      compute(compute_.get(), out, elements / 64);
    } else {
      memory(compute_.get(), static_cast<const float*>(in_.region().begin), out, elements);
    }
  }
  template <class To, class From>
  static void copy(const To& to, const From& from, cudaMemcpyKind kind, const ho::stream& stream) {
    ho::check(cudaMemcpyAsync(to.region().begin, from.region().begin, copy_bytes, kind, stream.get()),
              "cudaMemcpyAsync");
  }

  ho::stream compute_, out_, in_stream_;
  ho::device_allocation in_{elements * sizeof(float)}, result_{elements * sizeof(float)};
  ho::device_allocation leaving_{copy_bytes}, arriving_{copy_bytes};
  ho::pinned_allocation host_out_{copy_bytes}, host_in_{copy_bytes};
};

struct result {
  double hidden = 0, slowdown = 0;
};
std::map<std::pair<bound, way>, result> results;

double median_of(std::size_t n, const std::function<double()>& measure) {
  std::vector<double> times(n);
  std::generate(times.begin(), times.end(), measure);
  return bench::median(times);
}

void overlap(benchmark::State& state, bound b, way w) {
  setup s;
  const std::size_t repetitions = bench::on_virtual_gpu ? 1 : 11;
  s.measure(true, b, 1, w);  // a GPU loads its kernels when they are first launched
  const double kernels_alone = median_of(repetitions, [&] { return s.measure(true, b, 0, w).kernels; });
  constexpr std::size_t few = 4;
  const double one_copy = median_of(repetitions, [&] { return s.measure(false, b, few, w).copies; }) / few;
  const std::size_t copies = std::max<std::size_t>(1, static_cast<std::size_t>(kernels_alone / one_copy));
  const double copies_alone = median_of(repetitions, [&] { return s.measure(false, b, copies, w).copies; });

  std::vector<double> together;
  std::vector<double> kernels_beside;
  for (auto _ : state) {
    const setup::times t = s.measure(true, b, copies, w);
    state.SetIterationTime(t.all());
    together.push_back(t.all());
    kernels_beside.push_back(t.kernels);
  }
  const double saved = kernels_alone + copies_alone - bench::median(together);
  const result r{saved / std::min(kernels_alone, copies_alone), bench::median(kernels_beside) / kernels_alone};
  results[{b, w}] = r;
  state.counters["hidden"] = r.hidden;
  state.counters["kernel_slowdown"] = r.slowdown;
  state.counters["kernels_us"] = kernels_alone * 1e6;
  state.counters["copies_us"] = copies_alone * 1e6;
}

void register_all() {
  for (const bound b : {bound::compute, bound::memory}) {
    for (const way w : {way::out, way::in, way::both}) {
      const std::string name = std::string(to_string(b)) + '/' + std::string(to_string(w));
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { overlap(s, b, w); })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          ->Iterations(bench::on_virtual_gpu ? 1 : 11);
    }
  }
}

void summarise() {
  for (const auto& [what, r] : results) {
    std::cerr << "copies " << to_string(what.second) << " beside " << to_string(what.first)
              << "-bound kernels: " << r.hidden * 100 << " % hidden, the kernels take " << r.slowdown
              << " times as long\n";
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, register_all, summarise, bench::storage::none); }
