// Kernels.

#include <cmath>
#include <memory>
#include <span>

#include <hostoffload/virtual_gpu/detail/enqueue.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

bool valid(const hostoffload_kernel& k) {
  return k.flops >= 0 && k.bytes >= 0 && k.seconds >= 0 && std::isfinite(k.flops) && std::isfinite(k.bytes) &&
         std::isfinite(k.seconds) && k.precision >= hostoffload_fp64 && k.precision <= hostoffload_fp4 &&
         (k.read_count == 0 || k.reads != nullptr) && (k.write_count == 0 || k.writes != nullptr) &&
         (k.closure_bytes == 0 || k.copy != nullptr);
}

// Shows the detector all ranges; false if one is not memory that the device can reach, or has no storage.
bool look(const context& c, pending_operation& op, const stream& s, std::span<const hostoffload_range> ranges,
          bool write) {
  const access who = platform::access_of(op);
  bool usable = true;
  for (const auto& r : ranges) {
    if (r.bytes == 0) continue;
    allocation* a = c.gpu.detect.locate(who, r.begin, r.bytes, true);
    if (a == nullptr) {
      usable = false;
      continue;
    }
    const auto begin = static_cast<std::size_t>(static_cast<const std::byte*>(r.begin) - a->begin);
    if (write) {
      c.gpu.detect.write(who, s.clock, *a, begin, begin + r.bytes);
    } else {
      c.gpu.detect.read(who, s.clock, *a, begin, begin + r.bytes);
    }
    usable = usable && c.gpu.stored(*a, begin, r.bytes);
    if (address_sanitizer && !c.gpu.dry && a->on_device()) op.does.ranges.push_back({a->begin + begin, r.bytes});
  }
  return usable;
}

}  // namespace

void enqueue_kernel(const context& c, const hostoffload_kernel& kernel, stream& s) {
  pending_operation& op = c.gpu.begin(s, operation_kind::kernel, c.name, c.thread);
  op.uses = resource::compute;
  op.flops = kernel.flops;
  op.bytes = kernel.bytes;
  op.compute_seconds = kernel.flops > 0 ? kernel.flops / c.gpu.model.rate(kernel.precision).value : 0;
  op.memory_bytes = kernel.bytes;
  op.least_seconds = kernel.seconds;
  const bool reads = look(c, op, s, {kernel.reads, kernel.read_count}, false);
  const bool writes = look(c, op, s, {kernel.writes, kernel.write_count}, true);
  const bool declared = kernel.read_count + kernel.write_count > 0;
  if (reads && writes && (declared || !c.gpu.dry)) {
    op.does.kind = effect::action::run;
    op.does.code.assign(kernel);
  }
  c.gpu.enqueue(op);
}

extern "C" cudaError_t hostoffload_launch(cudaStream_t stream, const hostoffload_kernel* kernel) {
  static function_id f("hostoffload_launch");
  return call(f, &host_costs::launch, [&](const context& c) -> cudaError_t {
    auto* s = c.gpu.find_stream(stream, c.thread);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    if (kernel == nullptr || !valid(*kernel)) return cudaErrorInvalidValue;
    if (c.gpu.model.rate(kernel->precision).value <= 0 && kernel->flops > 0) return cudaErrorNotSupported;
    const context named{c.s, c.gpu, c.thread, c.gpu.texts.id(kernel->name == nullptr ? "kernel" : kernel->name)};
    if (s->captured_by != nullptr) {
      c.gpu.collect(*s, named.name, std::make_unique<kept_kernel>(*kernel));
    } else {
      enqueue_kernel(named, *kernel, *s);
    }
    return cudaSuccess;
  });
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
