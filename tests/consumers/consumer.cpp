// A program outside of the project: offloads one tensor and gets its values back.
#include <hostoffload/hostoffload.hpp>
#include <hostoffload/virtual_gpu/control.hpp>

#include <cuda_runtime_api.h>

#include <cstdio>
#include <utility>
#include <vector>

namespace ho = hostoffload;

enum class name { q };
using table = ho::placement<name, ho::offload_these<name::q>>;

int main() {
  const std::vector<float> given(1000, 1.5F);
  std::vector<float> back(given.size());
  const std::size_t bytes = given.size() * sizeof(float);

  ho::stream compute;
  ho::prefetch_scheduler scheduler({.compute = compute.get()});
  ho::offload_tensor<float, table::of<name::q>> q(scheduler, given.size());
  {
    ho::step step(scheduler);
    auto written = q.produce(compute.get());
    cudaMemcpyAsync(written.data(), given.data(), bytes, cudaMemcpyHostToDevice, compute.get());
    written.end();
    auto read = std::move(q).fetch(compute.get());
    cudaMemcpyAsync(back.data(), read.data(), bytes, cudaMemcpyDeviceToHost, compute.get());
    read.end();
    step.end();
  }
  cudaStreamSynchronize(compute.get());

  for (const ho::virtual_gpu::finding& found : ho::virtual_gpu::findings()) std::puts(found.message.c_str());
  return back == given && ho::virtual_gpu::findings().empty() ? 0 : 1;
}
