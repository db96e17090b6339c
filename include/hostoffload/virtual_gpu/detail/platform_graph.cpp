// Captures and graphs. Quotations: CUDA Programming Guide, "Prohibited and Unhandled Operations".

#include <hostoffload/virtual_gpu/detail/platform.hpp>

#include <algorithm>
#include <utility>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

/// Whether a stream of the capture waits for the legacy stream of the device, and that for it.
bool blocks(const capture& c, int device) {
  return std::any_of(c.streams.begin(), c.streams.end(),
                     [device](const stream* s) { return s->device == device && s->blocking(); });
}

bool has_device(const capture& c, int device) {
  return std::any_of(c.streams.begin(), c.streams.end(), [device](const stream* s) { return s->device == device; });
}

void join(capture& c, stream& s, std::vector<std::size_t> behind) {
  s.captured_by = &c;
  s.branch = c.collects->branches.size();
  s.behind = std::move(behind);
  c.collects->branches.push_back({s.number, s.device, s.priority});
  c.streams.push_back(&s);
}

}  // namespace

std::vector<char> graph_nodes::reached(const std::vector<std::size_t>& from) const {
  std::vector<char> seen(nodes.size(), 0);
  for (const std::size_t n : from) seen[n] = 1;
  for (std::size_t n = nodes.size(); n-- > 0;) {
    if (seen[n] == 0) continue;
    for (const std::size_t before : nodes[n]->behind) seen[before] = 1;
  }
  return seen;
}

bool graph_nodes::are_behind(const std::vector<std::size_t>& from, const std::vector<std::size_t>& wanted) const {
  const std::vector<char> seen = reached(from);
  return std::all_of(wanted.begin(), wanted.end(), [&seen](std::size_t n) { return seen[n] != 0; });
}

bool graph_nodes::all_behind(const std::vector<std::size_t>& from) const {
  const std::vector<char> seen = reached(from);
  return std::all_of(seen.begin(), seen.end(), [](char c) { return c != 0; });
}

capture* platform::find_capture(std::uint64_t id) const {
  const auto it = std::find_if(captures.begin(), captures.end(), [id](const auto& c) { return c->id == id; });
  return it == captures.end() ? nullptr : it->get();
}

void platform::begin_capture(stream& s, cudaStreamCaptureMode mode, const thread_state& t) {
  auto c = std::make_unique<capture>();
  c->id = next_serial();
  c->mode = mode;
  c->thread = t.id;
  c->origin = &s;
  c->collects = std::make_shared<graph_nodes>();
  const auto [g, handle] = graphs.add();
  g->number = ++serial;
  g->call = calls;
  g->device = s.device;
  g->holds = c->collects;
  c->handle = handle;
  join(*c, s, {});
  captures.push_back(std::move(c));
}

std::pair<cudaGraph_t, cudaError_t> platform::end_capture(stream& s) {
  const capture& c = *s.captured_by;
  cudaError_t error = cudaSuccess;
  if (!c.valid) {
    error = cudaErrorStreamCaptureInvalidated;
  } else if (!c.collects->all_behind(s.behind)) {
    error = cudaErrorStreamCaptureUnjoined;
  }
  cudaGraph_t handle = c.handle;
  if (error != cudaSuccess) {
    static_cast<void>(graphs.remove(handle));
    handle = nullptr;
  }
  for (stream* each : c.streams) {
    faults.capture_ends(*each, *c.collects);
    each->captured_by = nullptr;
    each->behind.clear();
  }
  std::erase_if(captures, [&c](const std::unique_ptr<capture>& x) { return x.get() == &c; });
  return {handle, error};
}

void platform::collect(stream& s, std::uint32_t name, node_work what) {
  auto& nodes = s.captured_by->collects->nodes;
  nodes.push_back(std::make_unique<graph_node>(graph_node{name, s.branch, std::move(s.behind), std::move(what)}));
  s.behind.assign(1, nodes.size() - 1);
}

void platform::record_in_capture(stream& s, event& e) {
  if (e.pending != nullptr) e.pending->marks = nullptr;
  e.pending = nullptr;
  e.recorded = true;
  e.stream = s.number;
  e.captured_in = s.captured_by->id;
  e.captured = s.behind;
  e.anchor = ~std::uint64_t{0};  // no place in the order of what really runs
}

void platform::wait_in_capture(stream& s, const event& e) {
  capture* const of = find_capture(e.captured_in);
  if (s.captured_by == nullptr) {
    if (of == nullptr) throw refused{cudaErrorCapturedEvent};  // its capture is over
    if (!of->valid) throw refused{cudaErrorStreamCaptureInvalidated};
    if (s.legacy) refuse(*of, cudaErrorStreamCaptureImplicit);
    join(*of, s, e.captured);
    return;
  }
  // "It is invalid to wait on a non-captured event from a stream which is being captured"
  if (of == nullptr) refuse(*s.captured_by, cudaErrorStreamCaptureIsolation);
  // "It is invalid to merge two separate capture graphs by waiting on a captured event"
  if (of != s.captured_by) {
    of->valid = false;
    refuse(*s.captured_by, cudaErrorStreamCaptureMerge);
  }
  for (const std::size_t n : e.captured) {
    if (std::find(s.behind.begin(), s.behind.end(), n) == s.behind.end()) s.behind.push_back(n);
  }
}

bool platform::depends_on(const stream& s, const event& e) {
  return s.captured_by != nullptr && s.captured_by->id == e.captured_in &&
         s.captured_by->collects->are_behind(s.behind, e.captured);
}

void platform::refuse(capture& c, cudaError_t code) {
  c.valid = false;
  throw refused{code};
}

// "It is invalid to synchronize or query the execution status of a stream which is being captured"
void platform::refuse_if_captured(const stream& s, cudaError_t code) {
  if (s.captured_by != nullptr) refuse(*s.captured_by, code);
}

// "… or a captured event, because they do not represent items scheduled for execution."
void platform::refuse_if_captured(const event& e) {
  if (e.captured_in == 0) return;
  if (capture* const c = find_capture(e.captured_in)) c->valid = false;
  throw refused{cudaErrorCapturedEvent};
}

// "It is also invalid to query the execution status of or synchronize a broader handle which encompasses an active
// stream capture, such as a device or context handle when any associated stream is in capture mode."
void platform::refuse_if_capturing(int device) {
  bool any = false;
  for (const auto& c : captures) {
    if (!has_device(*c, device)) continue;
    c->valid = false;
    any = true;
  }
  if (any) throw refused{cudaErrorStreamCaptureUnsupported};
}

void platform::refuse_unsafe(const thread_state& t) {
  if (t.capture_mode == cudaStreamCaptureModeRelaxed) return;
  bool any = false;
  for (const auto& c : captures) {
    const bool own = c->thread == t.id && c->mode != cudaStreamCaptureModeRelaxed;
    const bool others =
        c->thread != t.id && c->mode == cudaStreamCaptureModeGlobal && t.capture_mode == cudaStreamCaptureModeGlobal;
    if (!own && !others) continue;
    c->valid = false;
    any = true;
  }
  if (any) throw refused{cudaErrorStreamCaptureUnsupported};
}

// "When any stream in the same context is being captured, and it was not created with cudaStreamNonBlocking, any
// attempted use of the legacy stream is invalid."
bool platform::legacy_is_unusable(const stream& legacy) const {
  return std::any_of(captures.begin(), captures.end(), [&](const auto& c) { return blocks(*c, legacy.device); });
}

void platform::refuse_legacy(const stream& legacy) {
  if (!legacy_is_unusable(legacy)) return;
  for (const auto& c : captures) c->valid = c->valid && !blocks(*c, legacy.device);
  throw refused{cudaErrorStreamCaptureImplicit};
}

cudaGraphExec_t platform::instantiate(const graph& g, bool node_priorities) {
  const auto [x, handle] = executables.add();
  x->number = ++serial;
  x->call = calls;
  x->device = g.device;
  x->node_priorities = node_priorities;
  x->holds = g.holds;
  for (const graph_branch& b : g.holds->branches) {
    const auto made = create_stream(b.device, cudaStreamNonBlocking, b.priority);
    made.first->number = b.stream;  // what the detector and the timeline call it
    made.first->implicit = true;
    x->branches.push_back(made);
  }
  return handle;
}

// What was launched still runs.
void platform::destroy(cudaGraphExec_t handle) {
  const auto x = executables.remove(handle);
  if (x->last.pending != nullptr) x->last.pending->marks = nullptr;
  for (const auto& b : x->branches) destroy_stream(b.second);
}

void platform::forget_graphs(int device) {
  for (const auto& c : captures) {
    if (!has_device(*c, device)) continue;
    for (stream* s : c->streams) s->captured_by = nullptr;
    c->streams.clear();
  }
  std::erase_if(captures, [](const std::unique_ptr<capture>& c) { return c->streams.empty(); });
  std::vector<cudaGraphExec_t> old_executables;
  executables.each([&](const executable_graph& x, cudaGraphExec_t handle) {
    if (x.device == device) old_executables.push_back(handle);
  });
  for (auto* handle : old_executables) destroy(handle);
  std::vector<cudaGraph_t> old_graphs;
  graphs.each([&](const graph& g, cudaGraph_t handle) {
    if (g.device == device) old_graphs.push_back(handle);
  });
  for (auto* handle : old_graphs) static_cast<void>(graphs.remove(handle));
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
