#include "demo.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace llama {
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

vgpu::machine with_unlimited_memory(vgpu::machine m) {
  m.device_memory.value = 1e15;
  return m;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

constexpr std::size_t steps_for_times = 5;

std::size_t window_bytes(const options& o, const training_options& run, const vgpu::machine& machine,
                         const token_stream& data) {
  const std::size_t per_layer = offloaded_bytes_per_layer(run);
  if (per_layer == 0) return ho::unlimited;
  switch (o.window.is) {
    case window_option::kind::bytes:
      return o.window.count;
    case window_option::kind::layers:
      return o.window.count * per_layer;
    case window_option::kind::least:
      return train(with_unlimited_memory(machine), run, data, 3).least_window_bytes;
    case window_option::kind::unlimited:
      break;
  }
  return ho::unlimited;
}

}  // namespace

outcome train(const vgpu::machine& machine, const training_options& options, const token_stream& data,
              std::size_t steps, const progress& report) {
  vgpu::reset(machine);
  vgpu::record_timeline(false);
  const auto run = make_training(options, data);
  outcome done;
  std::vector<double> times;
  for (std::size_t i = 0; i < steps; ++i) {
    const double began = vgpu::now();
    done.losses.push_back(run->step());
    times.push_back(vgpu::now() - began);
    if (report) report(i + 1, done.losses.back());
  }
  const auto steady = times.begin() + std::min<std::ptrdiff_t>(2, std::ssize(times) - 1);
  const auto middle = steady + (times.end() - steady) / 2;
  std::nth_element(steady, middle, times.end());
  done.step_s = *middle;
  done.parameters = run->values();
  done.gpu_peak_bytes = vgpu::memory_usage().device_peak;
  const ho::step_report last = run->report();
  done.host_bytes = last.host_bytes;
  done.least_window_bytes = last.least_window_bytes;
  const std::vector<vgpu::finding> faults = vgpu::findings();
  if (!faults.empty()) throw std::logic_error("the virtual GPU found a fault in this run: " + faults.front().message);
  return done;
}

vgpu::machine describe_machine(const options& o) {
  vgpu::machine m = vgpu::machine_named(o.machine);
  if (o.scale_to == 0) return m;
  const auto bytes = static_cast<double>(bytes_of(o.run.type));
  return vgpu::scaled_to(m, {.hidden = static_cast<double>(o.run.model.hidden),
                             .full_hidden = static_cast<double>(o.scale_to),
                             .element_bytes = bytes,
                             .full_element_bytes = bytes});
}

std::vector<row> compare(const options& o, const vgpu::machine& machine, const token_stream& data) {
  const progress_line terminal;
  const auto label = [](plan p, std::size_t batch) { return fmt::format("{}, batch {}", to_string(p), batch); };
  std::vector<row> rows;
  for (const std::size_t batch : o.batches) {
    training_options run = o.run;
    run.batch = batch;
    run.placement = plan::save;
    const outcome reference = train(with_unlimited_memory(machine), run, data, o.steps,
                                    terminal.of(label(plan::save, batch) + ", unlimited memory", o.steps));

    for (const plan p : o.plans) {
      row r{.placement = p, .batch = batch};
      run.placement = p;
      run.window = window_bytes(o, run, machine, data);
      try {
        outcome done = train(machine, run, data, o.steps, terminal.of(label(p, batch), o.steps));
        const outcome free_copies =
            train(vgpu::infinitely_fast_link(machine), run, data, std::min(o.steps, steps_for_times),
                  terminal.of(label(p, batch) + ", infinitely fast link", steps_for_times));
        r.fits = true;
        r.step_s = done.step_s;
        r.tflops_per_device = step_flops(run.model, batch * run.model.sequence) / done.step_s / 1e12;
        r.exposed_s = std::max(0.0, done.step_s - free_copies.step_s);
        r.gpu_peak_bytes = done.gpu_peak_bytes;
        r.host_bytes = done.host_bytes;
        r.final_loss = done.losses.back();
        r.bitwise_equal_to_save =
            same_bits(done.losses, reference.losses) && same_bits(done.parameters, reference.parameters);
        if (!o.save.empty()) r.parameters = std::move(done.parameters);
      } catch (const ho::out_of_memory&) {
        const std::size_t needed = p == plan::save ? reference.gpu_peak_bytes
                                                   : train(with_unlimited_memory(machine), run, data, 3).gpu_peak_bytes;
        const auto capacity = static_cast<std::size_t>(machine.device_memory.value);
        r.missing_bytes = needed > capacity ? needed - capacity : 0;
      }
      rows.push_back(r);
    }
  }
  return rows;
}

}  // namespace llama
