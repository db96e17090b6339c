// Copies and memsets.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <hostoffload/virtual_gpu/detail/copy.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

cudaError_t copy_by(function_id& f, const copy_request& r, cudaStream_t stream) {
  return call(f, &host_costs::copy, [&](const context& c) { return copy(c, r, c.gpu.find_stream(stream, c.thread)); });
}

cudaError_t set_by(function_id& f, const set_request& r, cudaStream_t stream) {
  return call(f, &host_costs::copy, [&](const context& c) { return set(c, r, c.gpu.find_stream(stream, c.thread)); });
}

#if CUDART_VERSION >= 13000  // cudaMemcpyBatchAsync took one more argument before

// "The first entry in attrsIdxs must always be 0. Also, each entry must be greater than the previous entry and the last
// entry should be less than count."
bool valid(std::span<const cudaMemcpyAttributes> attributes, std::span<const std::size_t> firsts, std::size_t count) {
  const auto known = [](const cudaMemcpyAttributes& a) {
    return a.srcAccessOrder >= cudaMemcpySrcAccessOrderStream && a.srcAccessOrder <= cudaMemcpySrcAccessOrderAny &&
           a.flags <= cudaMemcpyFlagPreferOverlapWithCompute;
  };
  return firsts.front() == 0 && firsts.back() < count &&
         std::adjacent_find(firsts.begin(), firsts.end(), std::greater_equal<>()) == firsts.end() &&
         std::all_of(attributes.begin(), attributes.end(), known);
}

// "Specifying any dependent copies within a batch will result in undefined behavior."
void check_independent(const context& c, std::span<const copy_request> batch) {
  struct piece {
    const std::byte* begin;
    const std::byte* end;
    bool written;
  };
  std::vector<piece> pieces;
  for (const auto& r : batch) {
    const auto* to = static_cast<const std::byte*>(r.to);
    const auto* from = static_cast<const std::byte*>(r.from);
    pieces.push_back({to, to + r.width, true});
    pieces.push_back({from, from + r.width, false});
  }
  std::sort(pieces.begin(), pieces.end(), [](const piece& a, const piece& b) { return a.begin < b.begin; });
  const std::byte* read_to = nullptr;
  const std::byte* written_to = nullptr;
  for (const auto& p : pieces) {
    if (p.begin < written_to || (p.written && p.begin < read_to)) {
      c.gpu.detect.report(finding_kind::race, c.gpu.access_of_host(c.name),
                          "copies of one batch use the same bytes, and nothing orders them");
      return;
    }
    auto& reach = p.written ? written_to : read_to;
    reach = std::max(reach, p.end);
  }
}

cudaError_t copy_batch(const context& c, std::span<copy_request> batch, cudaStream_t handle) {
  stream* s = c.gpu.find_stream(handle, c.thread);
  if (s == nullptr) return cudaErrorInvalidResourceHandle;
  if (s->legacy) return cudaErrorInvalidValue;
  for (const auto& r : batch) {
    if (r.width == 0) return cudaErrorInvalidValue;
    if (const cudaError_t error = check_copy(c, r); error != cudaSuccess) return error;
  }
  check_independent(c, batch);
  if (s->captured_by != nullptr) {
    c.gpu.detect.report(finding_kind::lost_copy, c.gpu.access_of_host(c.name),
                        "is given " + std::to_string(batch.size()) + " copies on stream " + std::to_string(s->number) +
                            ", which is being captured: no launch of the graph makes them");
    return cudaSuccess;
  }
  for (auto& r : batch) {
    r.batched = &r != &batch.front();
    if (r.batched) c.spend(c.gpu.model.host.batch_entry);
    if (const cudaError_t error = copy(c, r, s); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

#endif

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): parameters are named as in CUDA's header
extern "C" {

cudaError_t cudaMemcpy(void* dst, const void* src, std::size_t count, cudaMemcpyKind kind) {
  static function_id f("cudaMemcpy");
  return copy_by(f, {.to = dst, .from = src, .width = count, .kind = kind, .synchronous = true}, cudaStreamLegacy);
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  static function_id f("cudaMemcpyAsync");
  return copy_by(f, {.to = dst, .from = src, .width = count, .kind = kind}, stream);
}

cudaError_t cudaMemcpy2D(void* dst, std::size_t dpitch, const void* src, std::size_t spitch, std::size_t width,
                         std::size_t height, cudaMemcpyKind kind) {
  static function_id f("cudaMemcpy2D");
  return copy_by(f, {dst, src, width, height, dpitch, spitch, kind, true}, cudaStreamLegacy);
}

cudaError_t cudaMemcpy2DAsync(void* dst, std::size_t dpitch, const void* src, std::size_t spitch, std::size_t width,
                              std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  static function_id f("cudaMemcpy2DAsync");
  return copy_by(f, {dst, src, width, height, dpitch, spitch, kind}, stream);
}

#if CUDART_VERSION >= 13000
// All or nothing: the entries are checked before the first is enqueued.
cudaError_t cudaMemcpyBatchAsync(void* const* dsts, const void* const* srcs, const std::size_t* sizes,
                                 std::size_t count, cudaMemcpyAttributes* attrs, std::size_t* attrsIdxs,
                                 std::size_t numAttrs, cudaStream_t stream) {
  static function_id f("cudaMemcpyBatchAsync");
  return call(f, &host_costs::copy, [&](const context& c) -> cudaError_t {
    if (dsts == nullptr || srcs == nullptr || sizes == nullptr || attrs == nullptr || attrsIdxs == nullptr ||
        count == 0 || numAttrs == 0 || numAttrs > count || !valid({attrs, numAttrs}, {attrsIdxs, numAttrs}, count)) {
      return cudaErrorInvalidValue;
    }
    std::vector<copy_request> batch(count);
    std::size_t attribute = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (attribute + 1 < numAttrs && attrsIdxs[attribute + 1] == i) ++attribute;
      batch[i].to = dsts[i];
      batch[i].from = srcs[i];
      batch[i].width = sizes[i];
      batch[i].at_once = attrs[attribute].srcAccessOrder == cudaMemcpySrcAccessOrderDuringApiCall;
    }
    return copy_batch(c, batch, stream);
  });
}
#endif

cudaError_t cudaMemset(void* devPtr, int value, std::size_t count) {
  static function_id f("cudaMemset");
  return set_by(f, {.to = devPtr, .value = value, .width = count, .synchronous = true}, cudaStreamLegacy);
}

cudaError_t cudaMemsetAsync(void* devPtr, int value, std::size_t count, cudaStream_t stream) {
  static function_id f("cudaMemsetAsync");
  return set_by(f, {.to = devPtr, .value = value, .width = count}, stream);
}

cudaError_t cudaMemset2D(void* devPtr, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  static function_id f("cudaMemset2D");
  return set_by(f, {devPtr, value, width, height, pitch, true}, cudaStreamLegacy);
}

cudaError_t cudaMemset2DAsync(void* devPtr, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  static function_id f("cudaMemset2DAsync");
  return set_by(f, {devPtr, value, width, height, pitch}, stream);
}

// What the four functions are called where the default stream is one per thread.
cudaError_t cudaMemcpy_ptds(void* dst, const void* src, std::size_t count, cudaMemcpyKind kind) {
  static function_id f("cudaMemcpy");
  return copy_by(f, {.to = dst, .from = src, .width = count, .kind = kind, .synchronous = true}, cudaStreamPerThread);
}

cudaError_t cudaMemcpy2D_ptds(void* dst, std::size_t dpitch, const void* src, std::size_t spitch, std::size_t width,
                              std::size_t height, cudaMemcpyKind kind) {
  static function_id f("cudaMemcpy2D");
  return copy_by(f, {dst, src, width, height, dpitch, spitch, kind, true}, cudaStreamPerThread);
}

cudaError_t cudaMemset_ptds(void* devPtr, int value, std::size_t count) {
  static function_id f("cudaMemset");
  return set_by(f, {.to = devPtr, .value = value, .width = count, .synchronous = true}, cudaStreamPerThread);
}

cudaError_t cudaMemset2D_ptds(void* devPtr, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  static function_id f("cudaMemset2D");
  return set_by(f, {devPtr, value, width, height, pitch, true}, cudaStreamPerThread);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace hostoffload::inline v0::virtual_gpu::detail
