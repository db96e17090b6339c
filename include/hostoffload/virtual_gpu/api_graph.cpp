// Stream capture and graphs. A graph has no allocations, no child graphs and no external events here: what would make
// such a node is refused.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include <hostoffload/virtual_gpu/detail/copy.hpp>
#include <hostoffload/virtual_gpu/detail/enqueue.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

/// What a function asks of a stream's capture; unlike other uses, allowed when the capture is invalid.
template <typename Body>
cudaError_t with_capture(function_id& f, cudaStream_t handle, Body body) {
  return call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    stream* s = c.gpu.known_stream(handle, c.thread);
    return s == nullptr ? cudaErrorInvalidResourceHandle : body(c, *s);
  });
}

template <typename Body>
cudaError_t with_executable(function_id& f, double host_costs::*cost, cudaGraphExec_t handle, Body body) {
  return call(f, cost, [&](const context& c) -> cudaError_t {
    executable_graph* x = c.gpu.executables.find(handle);
    return x == nullptr ? cudaErrorInvalidValue : body(c, *x);
  });
}

template <typename Body>
cudaError_t with_graph(function_id& f, cudaGraph_t handle, Body body) {
  return call(f, &host_costs::create, [&](const context& c) -> cudaError_t {
    graph* g = c.gpu.graphs.find(handle);
    return g == nullptr ? cudaErrorInvalidValue : body(c, *g);
  });
}

cudaStreamCaptureStatus status_of(const stream& s) {
  if (s.captured_by == nullptr) return cudaStreamCaptureStatusNone;
  return s.captured_by->valid ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated;
}

cudaGraphNode_t handle_of(const graph_node& n) {
  return reinterpret_cast<cudaGraphNode_t>(
      const_cast<graph_node*>(&n));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

cudaGraphNodeType type_of(const graph_node& n) {
  constexpr cudaGraphNodeType types[] = {cudaGraphNodeTypeKernel, cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeMemset,
                                         cudaGraphNodeTypeHost};
  return types[n.does.index()];
}

void enqueue_node(const context& c, const graph_node& n, stream& s) {
  if (const auto* kernel = std::get_if<std::unique_ptr<kept_kernel>>(&n.does)) {
    enqueue_kernel(c, (*kernel)->what(), s);
  } else if (const auto* r = std::get_if<copy_request>(&n.does)) {
    static_cast<void>(copy(c, *r, &s));  // memory that is gone since the capture is a finding
  } else if (const auto* t = std::get_if<set_request>(&n.does)) {
    static_cast<void>(set(c, *t, &s));
  } else {
    enqueue_host_call(c, std::get<host_call>(n.does), s);
  }
}

/// The first node of `from` that differs in more than its parameters; null where none does, or their numbers differ.
const graph_node* first_difference(const graph_nodes& old, const graph_nodes& from, cudaGraphExecUpdateResult& result) {
  result = cudaGraphExecUpdateErrorTopologyChanged;
  if (old.nodes.size() != from.nodes.size() || old.branches.size() != from.branches.size()) return nullptr;
  for (std::size_t i = 0; i < from.nodes.size(); ++i) {
    const graph_node& a = *old.nodes[i];
    const graph_node& b = *from.nodes[i];
    if (a.branch != b.branch || a.behind != b.behind) return &b;
    if (a.does.index() == b.does.index()) continue;
    result = cudaGraphExecUpdateErrorNodeTypeChanged;
    return &b;
  }
  result = cudaGraphExecUpdateSuccess;
  return nullptr;
}

}  // namespace

// "Each launch is ordered behind both any previous work in stream and any previous launches of graphExec." Within, a
// node runs behind those that it depends on: in its branch, or by what costs as much as a wait for an event.
void enqueue_graph(const context& c, executable_graph& g, stream& s) {
  const graph_nodes& what = *g.holds;
  s.clock.join(g.last.clock);
  pending_operation& start = c.gpu.begin(s, operation_kind::graph, c.name, c.thread);
  simulator::block(start, g.last.pending);
  c.gpu.enqueue(start);
  for (const auto& [branch, handle] : g.branches) {
    branch->clock.join(s.clock);
    if (!g.node_priorities) branch->priority = s.priority;
    pending_operation& op = c.gpu.begin(*branch, operation_kind::graph, c.name, c.thread);
    simulator::block(op, &start);
    c.gpu.enqueue(op);
  }
  std::vector<vector_clock> clocks(what.nodes.size());
  std::vector<pending_operation*> enqueued(what.nodes.size(), nullptr);
  for (std::size_t i = 0; i < what.nodes.size(); ++i) {
    const graph_node& n = *what.nodes[i];
    stream& branch = *g.branches[n.branch].first;
    for (const std::size_t before : n.behind) {
      if (what.nodes[before]->branch == n.branch) continue;
      branch.clock.join(clocks[before]);
      pending_operation& wait = c.gpu.begin(branch, operation_kind::wait, c.name, c.thread);
      simulator::block(wait, enqueued[before]);
      c.gpu.enqueue(wait);
    }
    enqueue_node({c.s, c.gpu, c.thread, n.name}, n, branch);
    clocks[i] = branch.clock;
    enqueued[i] = branch.tail;
  }
  for (const auto& [branch, handle] : g.branches) s.clock.join(branch->clock);
  pending_operation& end = c.gpu.begin(s, operation_kind::graph, c.name, c.thread);
  for (const auto& [branch, handle] : g.branches) simulator::block(end, branch->tail);
  if (g.last.pending != nullptr) g.last.pending->marks = nullptr;
  g.last.pending = &end;
  g.last.clock = s.clock;
  end.marks = &g.last;
  c.gpu.enqueue(end);
}

// NOLINTBEGIN(readability-identifier-naming): parameters are named as in CUDA's header
extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  static function_id f("cudaStreamBeginCapture");
  return with_capture(f, stream, [&](const context& c, auto& s) -> cudaError_t {
    if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
    if (s.legacy) return cudaErrorStreamCaptureUnsupported;
    if (s.captured_by != nullptr) return cudaErrorIllegalState;
    c.gpu.begin_capture(s, mode, c.thread);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* pGraph) {
  static function_id f("cudaStreamEndCapture");
  return with_capture(f, stream, [&](const context& c, auto& s) -> cudaError_t {
    if (pGraph == nullptr) return cudaErrorInvalidValue;
    *pGraph = nullptr;
    if (s.captured_by == nullptr) return cudaErrorIllegalState;
    if (s.captured_by->origin != &s) platform::refuse(*s.captured_by, cudaErrorStreamCaptureUnmatched);
    if (s.captured_by->mode != cudaStreamCaptureModeRelaxed && s.captured_by->thread != c.thread.id) {
      return cudaErrorStreamCaptureWrongThread;
    }
    const auto [graph, error] = c.gpu.end_capture(s);
    *pGraph = graph;
    return error;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static function_id f("cudaThreadExchangeStreamCaptureMode");
  return call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    if (mode == nullptr) return cudaErrorInvalidValue;
    std::underlying_type_t<cudaStreamCaptureMode> wanted{};  // not read as the enumeration before it is known to be one
    std::memcpy(&wanted, mode, sizeof wanted);
    if (wanted > cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
    std::swap(*mode, c.thread.capture_mode);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus) {
  static function_id f("cudaStreamIsCapturing");
  return with_capture(f, stream, [&](const context& c, const auto& s) -> cudaError_t {
    if (pCaptureStatus == nullptr) return cudaErrorInvalidValue;
    if (s.legacy && c.gpu.legacy_is_unusable(s)) return cudaErrorStreamCaptureImplicit;
    *pCaptureStatus = status_of(s);
    return cudaSuccess;
  });
}

#if CUDART_VERSION >= 13000  // it had other arguments before
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out,
                                     unsigned long long* id_out, cudaGraph_t* graph_out,
                                     const cudaGraphNode_t** dependencies_out, const cudaGraphEdgeData** edgeData_out,
                                     std::size_t* numDependencies_out) {
  static function_id f("cudaStreamGetCaptureInfo");
  return with_capture(f, stream, [&](const context& c, const auto& s) -> cudaError_t {
    if (captureStatus_out == nullptr || (edgeData_out != nullptr && dependencies_out == nullptr)) {
      return cudaErrorInvalidValue;
    }
    if (s.legacy && c.gpu.legacy_is_unusable(s)) return cudaErrorStreamCaptureImplicit;
    *captureStatus_out = status_of(s);
    if (*captureStatus_out != cudaStreamCaptureStatusActive) return cudaSuccess;
    capture& of = *s.captured_by;
    of.shown.clear();
    for (const std::size_t n : s.behind) of.shown.push_back(handle_of(*of.collects->nodes[n]));
    of.edges.assign(of.shown.size(), cudaGraphEdgeData{});
    if (id_out != nullptr) *id_out = of.id;
    if (graph_out != nullptr) *graph_out = of.handle;
    if (dependencies_out != nullptr) *dependencies_out = of.shown.data();
    if (edgeData_out != nullptr) *edgeData_out = of.edges.data();
    if (numDependencies_out != nullptr) *numDependencies_out = of.shown.size();
    return cudaSuccess;
  });
}
#endif

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph, unsigned long long flags) {
  static function_id f("cudaGraphInstantiate");
  return with_graph(f, graph, [&](const context& c, auto& g) -> cudaError_t {
    constexpr unsigned long long known =
        cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUseNodePriority;
    if (pGraphExec == nullptr || (flags & ~known) != 0) return cudaErrorInvalidValue;
    *pGraphExec = c.gpu.instantiate(g, (flags & cudaGraphInstantiateFlagUseNodePriority) != 0);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                cudaGraphExecUpdateResultInfo* resultInfo) {
  static function_id f("cudaGraphExecUpdate");
  return with_executable(f, &host_costs::create, hGraphExec, [&](const context& c, executable_graph& x) -> cudaError_t {
    const graph* g = c.gpu.graphs.find(hGraph);
    if (g == nullptr || resultInfo == nullptr) return cudaErrorInvalidValue;
    *resultInfo = {};
    const graph_node* differs = first_difference(*x.holds, *g->holds, resultInfo->result);
    if (resultInfo->result != cudaGraphExecUpdateSuccess) {
      resultInfo->errorNode = differs == nullptr ? nullptr : handle_of(*differs);
      return cudaErrorGraphExecUpdateFailure;
    }
    x.holds = g->holds;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
  static function_id f("cudaGraphUpload");
  return with_executable(f, &host_costs::graph, graphExec, [&](const context& c, executable_graph&) -> cudaError_t {
    const auto* s = c.gpu.find_stream(stream, c.thread);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    platform::refuse_if_captured(*s);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
  static function_id f("cudaGraphLaunch");
  return with_executable(f, &host_costs::graph, graphExec, [&](const context& c, executable_graph& x) -> cudaError_t {
    auto* s = c.gpu.find_stream(stream, c.thread);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    platform::refuse_if_captured(*s);
    for (const auto& b : x.holds->branches) c.gpu.require(b.device);
    c.spend(c.gpu.model.host.graph_node * static_cast<double>(x.holds->nodes.size()));
    enqueue_graph(c, x, *s);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  static function_id f("cudaGraphDestroy");
  return with_graph(f, graph, [&](const context& c, const auto&) -> cudaError_t {
    static_cast<void>(c.gpu.graphs.remove(graph));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  static function_id f("cudaGraphExecDestroy");
  return with_executable(f, &host_costs::create, graphExec,
                         [&](const context& c, const executable_graph&) -> cudaError_t {
                           c.gpu.destroy(graphExec);
                           return cudaSuccess;
                         });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* numNodes) {
  static function_id f("cudaGraphGetNodes");
  return with_graph(f, graph, [&](const context&, const auto& g) -> cudaError_t {
    if (numNodes == nullptr) return cudaErrorInvalidValue;
    const auto& all = g.holds->nodes;
    if (nodes == nullptr) {
      *numNodes = all.size();
      return cudaSuccess;
    }
    for (std::size_t i = 0; i < *numNodes; ++i) nodes[i] = i < all.size() ? handle_of(*all[i]) : nullptr;
    *numNodes = std::min(*numNodes, all.size());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* pType) {
  static function_id f("cudaGraphNodeGetType");
  return call(f, &host_costs::other, [&](const context& c) -> cudaError_t {
    const graph_node* found = nullptr;
    c.gpu.graphs.each([&](const graph& g, cudaGraph_t) {
      for (const auto& n : g.holds->nodes) found = handle_of(*n) == node ? n.get() : found;
    });
    if (found == nullptr || pType == nullptr) return cudaErrorInvalidValue;
    *pType = type_of(*found);
    return cudaSuccess;
  });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace hostoffload::inline v0::virtual_gpu::detail
