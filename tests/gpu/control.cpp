// The virtual GPU's control functions where device tests run on a real GPU. What watches says that it has seen nothing,
// so that a test need not ask which device it has; what a GPU cannot do or tell fails the test, which then is one of
// the virtual GPU and carries the tag [virtual].

#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/faults.hpp>

#include <cuda_runtime_api.h>

#include <chrono>
#include <stdexcept>
#include <string>

namespace hostoffload::inline v0::virtual_gpu {
namespace {

machine described;

[[noreturn]] void only_virtual(const char* function) {
  throw std::logic_error(std::string("hostoffload::virtual_gpu::") + function +
                         " on a GPU: the test needs the tag [virtual]");
}

}  // namespace

/// Waits for the device and forgets an error that is not sticky. What `m` describes is used for nothing but sizes.
void reset(machine m, int devices, mode how) {
  int found = 0;
  if (how != mode::execute || cudaGetDeviceCount(&found) != cudaSuccess || found < devices) only_virtual("reset");
  static_cast<void>(cudaDeviceSynchronize());
  static_cast<void>(cudaGetLastError());
  described = std::move(m);
}
machine current_machine() { return described; }
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool inside() noexcept { return false; }
void record_timeline(bool) {}
std::vector<finding> findings() { return {}; }
void clear_findings() {}
std::vector<finding> leaks() { return {}; }
void host_reads(const void*, std::size_t) {}
void host_writes(const void*, std::size_t) {}
void slot_taken(void*, std::size_t) {}
void slot_given_back(void*, std::size_t) {}
void clear_timeline() {}
void reset_call_counts() {}
void clear_faults() {}
/// A GPU has its own time and order; tests ask for others to see more.
void delay(operation_kind, double) {}
void execution_order(std::uint64_t) {}

std::vector<operation> timeline() { only_virtual("timeline"); }
std::uint64_t calls(std::string_view) { only_virtual("calls"); }
copied bytes_copied(direction) { only_virtual("bytes_copied"); }
memory_use memory_usage(int) { only_virtual("memory_usage"); }
void fail_call(std::uint64_t, cudaError_t, std::string_view) { only_virtual("fail_call"); }
std::optional<failure> failed_call() { only_virtual("failed_call"); }
std::vector<std::pair<std::string_view, std::uint64_t>> call_counts() { only_virtual("call_counts"); }
std::uint64_t calls_until_now() { only_virtual("calls_until_now"); }
void watch_waits() { only_virtual("watch_waits"); }
void ignore_wait(std::uint64_t) { only_virtual("ignore_wait"); }
std::vector<wait_record> waits() { only_virtual("waits"); }

}  // namespace hostoffload::inline v0::virtual_gpu
