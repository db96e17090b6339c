#pragma once
// Graphs: what a capture collects, and what a launch enqueues again and again.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include <hostoffload/virtual_gpu/detail/effect.hpp>
#include <hostoffload/virtual_gpu/detail/operation.hpp>
#include <hostoffload/virtual_gpu/detail/request.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

/// A kernel with all that it points to, for later launches.
class kept_kernel {
public:
  explicit kept_kernel(const hostoffload_kernel& k)
      : reads_(k.reads, k.reads + k.read_count), writes_(k.writes, k.writes + k.write_count), what_(k) {
    code_.assign(k);
    what_.name = nullptr;  // the node has it
    what_.reads = reads_.data();
    what_.writes = writes_.data();
    what_.closure = code_.at();
  }

  [[nodiscard]] const hostoffload_kernel& what() const noexcept { return what_; }

private:
  std::vector<hostoffload_range> reads_, writes_;
  closure code_;
  hostoffload_kernel what_;
};

using node_work = std::variant<std::unique_ptr<kept_kernel>, copy_request, set_request, host_call>;

/// Its index is its place in the order of capture; all that it depends on comes before it.
struct graph_node {
  std::uint32_t name = 0;
  std::size_t branch = 0;
  std::vector<std::size_t> behind;
  node_work does;
};

/// The nodes that one stream contributed: each is behind the one before it.
struct graph_branch {
  std::uint64_t stream = 0;  // its number
  int device = 0;
  int priority = 0;
};

struct graph_nodes {
  std::vector<graph_branch> branches;
  std::vector<std::unique_ptr<graph_node>> nodes;

  /// Whether all of `wanted` are among `from` or what these depend on.
  [[nodiscard]] bool are_behind(const std::vector<std::size_t>& from, const std::vector<std::size_t>& wanted) const;
  /// Whether `from` and what these depend on are all nodes.
  [[nodiscard]] bool all_behind(const std::vector<std::size_t>& from) const;

private:
  [[nodiscard]] std::vector<char> reached(const std::vector<std::size_t>& from) const;
};

struct graph {
  std::uint64_t number = 0;
  std::uint64_t call = 0;
  int device = 0;
  std::shared_ptr<graph_nodes> holds;
};

struct executable_graph {
  std::uint64_t number = 0;
  std::uint64_t call = 0;
  int device = 0;
  bool node_priorities = false;  // else that of the stream it is launched into
  std::shared_ptr<const graph_nodes> holds;
  std::vector<std::pair<stream*, cudaStream_t>> branches;  // streams of its own that the nodes run on
  event last;                                              // the end of the last launch
};

/// A capture under way. Streams and events refer to it.
struct capture {
  std::uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::uint64_t thread = 0;
  bool valid = true;
  stream* origin = nullptr;
  std::vector<stream*> streams;
  cudaGraph_t handle = nullptr;
  std::shared_ptr<graph_nodes> collects;
  std::vector<cudaGraphNode_t> shown;  // what cudaStreamGetCaptureInfo points to
  std::vector<cudaGraphEdgeData> edges;
};

}  // namespace hostoffload::inline v0::virtual_gpu::detail
