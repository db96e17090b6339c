#pragma once
// What streams do beside copies (copy.hpp), enqueued at once: by the function of the API, or by the launch of a graph.

#include <hostoffload/virtual_gpu/detail/call.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

/// A valid kernel, under the name in `c`; the machine has units for it.
void enqueue_kernel(const context& c, const hostoffload_kernel& kernel, stream& s);

void enqueue_host_call(const context& c, const host_call& what, stream& s);

/// All nodes behind what `s` was given, and `s` behind all nodes.
void enqueue_graph(const context& c, executable_graph& g, stream& s);

}  // namespace hostoffload::inline v0::virtual_gpu::detail
