#include "trainer.hpp"

#include <hostoffload/hostoffload.hpp>
#include <hostoffload/virtual_gpu/control.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace schedules {
namespace {

namespace ho = hostoffload;

constexpr int settling_steps = 7;  // the third is timed, the fifth makes a plan and may be timed, the seventh mends it

class trainer {
public:
  trainer(const workload& w, ho::prefetch_scheduler& scheduler)
      : w_(w), accesses_(w), scheduler_(scheduler), at_(w.tensors.size()), made_at_(at_) {
    for (const tensor& t : w.tensors) {
      tensors_.push_back(std::make_unique<offloaded>(scheduler, t.bytes, ho::layer_position{t.layer, w.layers}));
    }
  }

  void step() {
    ho::step step(scheduler_);
    for (std::size_t i = 0; i < w_.segments.size(); ++i) run(i);
    step.end();
  }
  [[nodiscard]] const std::vector<const void*>& made_at() const noexcept { return made_at_; }

private:
  using offloaded = ho::offload_tensor<std::byte, ho::offload>;

  void run(std::size_t segment) {
    const cudaStream_t stream = scheduler_.compute();
    std::vector<ho::lease<const std::byte>> reads;
    std::vector<ho::lease<std::byte>> writes;
    for (const std::size_t i : accesses_.used[segment]) {
      const bool last = w_.tensors[i].used_in.back() == segment;
      reads.push_back(last ? std::move(*tensors_[i]).fetch(stream) : tensors_[i]->fetch(stream));
      at_[i] = reads.back().data();
    }
    for (const std::size_t i : accesses_.made[segment]) {
      writes.push_back(tensors_[i]->produce(stream));
      at_[i] = made_at_[i] = writes.back().data();
    }
    launch_segment(w_, accesses_, segment, at_, stream);
  }

  const workload& w_;
  accesses accesses_;
  ho::prefetch_scheduler& scheduler_;
  std::vector<std::unique_ptr<offloaded>> tensors_;
  std::vector<const void*> at_, made_at_;
};

}  // namespace

trained_step train(const workload& w, std::size_t window, std::size_t reserve) {
  const ho::stream compute;
  ho::prefetch_scheduler scheduler({.compute = compute.get(), .window = window + reserve, .plan = true});
  trainer t(w, scheduler);
  vgpu::record_timeline(false);
  for (int i = 0; i < settling_steps; ++i) {
    t.step();
    ho::detail::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  vgpu::record_timeline(true);
  begin_timeline(compute.get());
  t.step();
  trained_step r;
  r.timeline = end_timeline(w, t.made_at());
  const ho::step_report report = scheduler.report();
  r.planned = report.planned;
  r.planned_peak_bytes = static_cast<double>(report.plan_alive_bytes);
  return r;
}

}  // namespace schedules
