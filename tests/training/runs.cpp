#include "runs.hpp"

#include "catch.hpp"

#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/faults.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vgpu = hostoffload::virtual_gpu;

namespace training_tests {

const examples::token_stream& text() {
  static const examples::token_stream tokens = examples::token_stream::from_text(HOSTOFFLOAD_TEST_TEXT);
  return tokens;
}

void fresh_gpu(std::size_t hidden) {
  vgpu::machine m = vgpu::scaled_to(vgpu::gb200(), {.hidden = static_cast<double>(hidden), .full_hidden = 8192});
  m.device_memory.value = 1e15;
  vgpu::reset(m);
  vgpu::record_timeline(false);
}

void take_order(std::uint64_t order) { vgpu::execution_order(order); }

void require_no_findings() {
  for (const vgpu::finding& f : vgpu::findings()) FAIL(f.message);
}

void require_no_leaks() {
  for (const vgpu::finding& f : vgpu::leaks()) FAIL(f.message);
}

result train(examples::training& run, std::size_t steps) {
  result done;
  for (std::size_t i = 0; i < steps; ++i) done.losses.push_back(run.step());
  done.parameters = run.values();
  const hostoffload::step_report last = run.report();
  done.least_window_bytes = last.least_window_bytes;
  done.bytes_in = last.bytes_in;
  done.bytes_out = last.bytes_out;
  done.host_waits = last.host_waits;
  done.replays = last.replays;
  for (const hostoffload::tensor_report& each : last.tensors) done.recomputed += each.recomputed;
  return done;
}

std::size_t first_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof a[i]) != 0) return i;
  }
  return a.size();
}

double worst_relative_error(examples::training& run, const examples::parameter& p, const std::vector<double>& values,
                            const std::vector<double>& gradients, std::size_t batch) {
  constexpr double h = 1e-5;
  double difference = 0;
  double largest = 0;
  std::vector<double> moved = values;
  for (std::size_t i = 0; i < p.size(); i += std::max<std::size_t>(1, p.size() / 24)) {
    const std::size_t at = p.offset + i;
    moved[at] = values[at] + h;
    run.set_values(moved);
    const double above = run.loss(batch);
    moved[at] = values[at] - h;
    run.set_values(moved);
    const double below = run.loss(batch);
    moved[at] = values[at];
    const double expected = (above - below) / (2 * h);
    difference = std::max(difference, std::abs(gradients[at] - expected));
    largest = std::max(largest, std::abs(expected));
  }
  return largest == 0 ? difference : difference / largest;  // 0: of an expert that got no token
}

}  // namespace training_tests
