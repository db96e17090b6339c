#pragma once
// What the tests of faults share: offloaded tensors of one slot each, and the copies that ran.

#include "gpu.hpp"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <hostoffload/virtual_gpu/faults.hpp>

namespace faults {

enum class name { x, y };
template <name Name>
using any = ho::offload_tensor<float, ho::any_placement<Name>>;
using x_tensor = any<name::x>;
using y_tensor = any<name::y>;

inline constexpr std::size_t n = 1024;
inline constexpr std::size_t slot = n * sizeof(float);

inline std::unique_ptr<x_tensor> offloaded(ho::prefetch_scheduler& scheduler, std::size_t elements = n) {
  return std::make_unique<x_tensor>(scheduler, elements, ho::layer_position{}, ho::choice::offload);
}

template <class Tensor>
void produce(Tensor& t, float first) {
  auto out = t.produce(nullptr);
  fill(nullptr, out.data(), out.size(), first);
}

inline std::vector<vg::operation> copies(vg::operation_kind kind) {
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  std::vector<vg::operation> found;
  for (const vg::operation& o : vg::timeline()) {
    if (o.kind == kind) found.push_back(o);
  }
  return found;
}
inline constexpr auto to_host = vg::operation_kind::copy_to_host;
inline constexpr auto to_device = vg::operation_kind::copy_to_device;

/// Two tensors through one slot: each leaves, comes back and is ended.
inline std::pair<seen, seen> one_step(ho::prefetch_scheduler& scheduler, x_tensor& a, x_tensor& b) {
  std::pair<seen, seen> values{seen(a.elements()), seen(b.elements())};
  ho::step s(scheduler);
  produce(a, 1);
  produce(b, 2);
  {
    auto in = std::move(a).fetch(nullptr);
    values.first.look(nullptr, in.data());
  }
  {
    auto in = std::move(b).fetch(nullptr);
    values.second.look(nullptr, in.data());
  }
  s.end();
  return values;
}

}  // namespace faults
