#include "runs.hpp"

#include "catch.hpp"

#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/faults.hpp>

#include <cstring>

namespace vgpu = hostoffload::virtual_gpu;

namespace llama_tests {

llama::training_options small_options() {
  llama::training_options o;
  o.model.layers = 3;
  o.model.hidden = 16;
  o.model.heads = 4;
  o.model.kv_heads = 2;
  o.model.ffn = 24;
  o.model.sequence = 8;
  o.type = llama::element::f32;
  o.batch = 6;
  o.seed = 7;
  return o;
}

const llama::token_stream& text() {
  static const llama::token_stream tokens = llama::token_stream::from_text(LLAMA_TEST_TEXT);
  return tokens;
}

void fresh_gpu(const llama::training_options& options) {
  vgpu::machine m =
      vgpu::scaled_to(vgpu::gb200(), {.hidden = static_cast<double>(options.model.hidden), .full_hidden = 8192});
  m.device_memory.value = 1e15;
  vgpu::reset(m);
  vgpu::record_timeline(false);
}

void require_no_findings() {
  for (const vgpu::finding& f : vgpu::findings()) FAIL(f.message);
}

void require_no_leaks() {
  for (const vgpu::finding& f : vgpu::leaks()) FAIL(f.message);
}

result train(const llama::training_options& options, std::size_t steps, std::uint64_t order) {
  fresh_gpu(options);
  vgpu::execution_order(order);
  result done;
  {
    const auto run = llama::make_training(options, text());
    for (std::size_t i = 0; i < steps; ++i) done.losses.push_back(run->step());
    done.parameters = run->values();
    const hostoffload::step_report last = run->report();
    done.least_window_bytes = last.least_window_bytes;
    done.bytes_in = last.bytes_in;
    done.replays = last.replays;
    for (const hostoffload::tensor_report& each : last.tensors) done.recomputed += each.recomputed;
  }
  require_no_findings();
  require_no_leaks();
  return done;
}

std::size_t first_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof a[i]) != 0) return i;
  }
  return a.size();
}

}  // namespace llama_tests
