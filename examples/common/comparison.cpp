#include "comparison.hpp"

#include <hostoffload/schedule/measure_link.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace examples {
namespace {

/// One line on a terminal that is overwritten and cleared at the end; nothing elsewhere.
class progress_line {
public:
  progress_line() : shown_(isatty(STDERR_FILENO) != 0) {}
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  ~progress_line() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  [[nodiscard]] progress of(const std::string& what, std::size_t steps) const {
    if (!shown_) return {};
    return [what, steps](std::size_t step, double loss) {
      const std::string line = fmt::format("\r\033[K{}: step {} of {}, loss {:.4f}", what, step, steps, loss);
      std::fputs(line.c_str(), stderr);
      std::fflush(stderr);
    };
  }

private:
  bool shown_;
};

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

constexpr std::size_t steps_for_times = 5;
constexpr std::size_t steps_for_record = 5;  // the third is timed, and read two steps later

/// What a step of the run does, on the device as it is. A step without copies says nothing of the link: it is measured.
std::optional<ho::recorded_step> record(const example& of, device& on, run_options run, std::size_t placement,
                                        const token_stream& data) {
  run.record = true;
  run.graph = false;
  std::optional<ho::recorded_step> seen =
      train(of, on, device::variant::as_it_is, run, placement, data, steps_for_record).record;
  if (!seen || seen->out.rate > 0) return seen;
  std::size_t largest = 0;
  for (const ho::recorded_life& l : seen->lives) largest = std::max(largest, l.bytes);
  const ho::measured_link link = ho::measure_link(largest);
  seen->out = link.out;
  seen->in = link.in;
  return seen;
}

/// With all the memory that there may be.
device::variant roomy(const device& on) {
  return on.has(device::variant::unlimited_memory) ? device::variant::unlimited_memory : device::variant::as_it_is;
}

std::size_t window_bytes(const example& of, const options& o, const run_options& run, std::size_t placement, device& on,
                         const token_stream& data) {
  const std::size_t per_layer = of.offloaded_per_layer(run, placement);
  if (per_layer == 0) return ho::unlimited;
  switch (o.window.is) {
    case window_option::kind::bytes:
      return o.window.count;
    case window_option::kind::layers:
      return o.window.count * per_layer;
    case window_option::kind::least:
      return train(of, on, roomy(on), run, placement, data, 3).least_window_bytes;
    case window_option::kind::unlimited:
      break;
  }
  return ho::unlimited;
}

}  // namespace

outcome train(const example& of, device& on, device::variant variant, const run_options& options, std::size_t placement,
              const token_stream& data, std::size_t steps, const progress& report) {
  on.begin(variant);
  const auto run = of.make(options, placement, data);
  outcome done;
  std::vector<double> times;
  for (std::size_t i = 0; i < steps; ++i) {
    const double began = on.now();
    done.losses.push_back(run->step());
    times.push_back(on.now() - began);
    if (!on.has(device::variant::infinitely_fast_link)) {
      const ho::step_report last = run->report();
      if (last.sampled) done.exposed_s = last.exposed_s;
    }
    if (report) report(i + 1, done.losses.back());
  }
  const auto steady = times.begin() + std::min<std::ptrdiff_t>(2, std::ssize(times) - 1);
  const auto middle = steady + (times.end() - steady) / 2;
  std::nth_element(steady, middle, times.end());
  done.step_s = *middle;
  done.parameters = run->values();
  done.gpu_peak_bytes = on.peak_bytes();
  const ho::step_report last = run->report();
  done.host_bytes = last.host_bytes;
  done.least_window_bytes = last.least_window_bytes;
  done.record = run->record();
  on.check_faults();
  return done;
}

device make_device(const example& of, const options& o) {
  return device({.machine = o.machine,
                 .scale_to = o.scale_to,
                 .hidden = of.hidden(),
                 .sequence = of.sequence(),
                 .element_bytes = bytes_of(o.run.type),
                 .products = o.run.type == element::bf16 ? ho::precision::bf16 : ho::precision::fp32});
}

std::vector<row> compare(const example& of, const options& o, device& on, const token_stream& data) {
  const progress_line terminal;
  const auto label = [&](std::size_t placement, std::size_t batch) {
    return fmt::format("{}, batch {}", of.placements.at(placement), batch);
  };
  std::vector<row> rows;
  for (const std::size_t batch : o.batches) {
    run_options run = o.run;
    run.batch = batch;
    run.graph = false;
    constexpr std::size_t save = 0;
    std::optional<outcome> reference;
    try {
      reference = train(of, on, roomy(on), run, save, data, o.steps,
                        terminal.of(label(save, batch) + ", unlimited memory", o.steps));
    } catch (const ho::out_of_memory&) {
      if (on.has(device::variant::unlimited_memory)) throw;
    }

    run.graph = o.run.graph;
    for (const std::size_t p : o.placements) {
      row r{.placement = p, .batch = batch};
      run.window = window_bytes(of, o, run, p, on, data);
      try {
        outcome done =
            train(of, on, device::variant::as_it_is, run, p, data, o.steps, terminal.of(label(p, batch), o.steps));
        r.fits = true;
        r.step_s = done.step_s;
        r.tflops_per_device = of.flops(batch * of.sequence()) / done.step_s / 1e12;
        r.exposed_s = done.exposed_s;
        if (on.has(device::variant::infinitely_fast_link)) {
          const outcome free_copies =
              train(of, on, device::variant::infinitely_fast_link, run, p, data, std::min(o.steps, steps_for_times),
                    terminal.of(label(p, batch) + ", infinitely fast link", steps_for_times));
          r.exposed_s = std::max(0.0, done.step_s - free_copies.step_s);
        }
        r.gpu_peak_bytes = done.gpu_peak_bytes;
        r.host_bytes = done.host_bytes;
        r.final_loss = done.losses.back();
        if (reference) {
          r.bitwise_equal_to_save =
              same_bits(done.losses, reference->losses) && same_bits(done.parameters, reference->parameters);
        }
        if (!o.save.empty()) r.parameters = std::move(done.parameters);
        if (!o.record.empty()) r.record = record(of, on, run, p, data);
      } catch (const ho::out_of_memory& fault) {
        r.missing_bytes = fault.requested();
        if (on.has(device::variant::unlimited_memory)) {
          const std::size_t needed =
              p == save ? reference->gpu_peak_bytes : train(of, on, roomy(on), run, p, data, 3).gpu_peak_bytes;
          r.missing_bytes = needed > on.memory_bytes() ? needed - on.memory_bytes() : 0;
        }
      }
      rows.push_back(r);
    }
  }
  return rows;
}

}  // namespace examples
