#include <hostoffload/virtual_gpu/detail/call.hpp>

#include <algorithm>
#include <array>
#include <memory>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

// The runtime is one per process, as CUDA's. It is never destroyed: objects with static lifetime may still call it at
// exit.
struct process {
  std::mutex mutex;
  std::unique_ptr<platform> machine;
  std::uint64_t epoch = 1;
  std::uint64_t threads = 0;
};

process& the_process() {
  static auto& p = *new process;
  return p;
}

platform& machine_of(process& p) {
  if (!p.machine) p.machine = std::make_unique<platform>(gb200(), 1, mode::execute);
  return *p.machine;
}

// CUDA names cudaMalloc; what else allocates, frees or pins is not captured either. cudaEventQuery is refused in
// practice: watchdogs that ask for events end the captures of other threads.
bool unsafe(std::string_view name) {
  constexpr std::array<std::string_view, 8> all{"cudaMalloc",         "cudaFree",      "cudaHostAlloc",
                                                "cudaMallocHost",     "cudaFreeHost",  "cudaHostRegister",
                                                "cudaHostUnregister", "cudaEventQuery"};
  return std::find(all.begin(), all.end(), name) != all.end();
}

}  // namespace

thread_state& this_thread() noexcept {
  thread_local thread_state state;
  return state;
}

std::atomic<function_id*>& function_id::first() noexcept {
  static std::atomic<function_id*> list{nullptr};
  return list;
}

function_id::role function_id::role_of(std::string_view name) noexcept {
  for (const auto* other :
       {"cudaGetDeviceCount", "cudaGetDevice", "cudaSetDevice", "cudaGetDeviceProperties", "cudaDeviceGetAttribute",
        "cudaDriverGetVersion", "cudaRuntimeGetVersion", "cudaDeviceReset"}) {
    if (name == other) return role::goes_on_without;
  }
  return name == "cudaGetLastError" || name == "cudaPeekAtLastError" ? role::asks_for_errors : role::concerns_device;
}

function_id::function_id(std::string_view name)
    : name_(name), role_(role_of(name)), unsafe_in_capture_(unsafe(name)), next_(first().load()) {
  while (!first().compare_exchange_weak(next_, this)) {
  }
}

std::vector<std::pair<std::string_view, std::uint64_t>> function_id::counts() {
  std::vector<std::pair<std::string_view, std::uint64_t>> result;
  for (const auto* f = first().load(); f != nullptr; f = f->next_) {
    if (f->calls_ > 0) result.emplace_back(f->name_, f->calls_);
  }
  std::sort(result.begin(), result.end());
  return result;
}

void function_id::clear_counts() {
  for (auto* f = first().load(); f != nullptr; f = f->next_) f->calls_ = 0;
}

session::session() : lock_(the_process().mutex), machine_(machine_of(the_process())), thread_(this_thread()) {
  auto& p = the_process();
  if (thread_.id == 0) thread_.id = ++p.threads;
  if (thread_.epoch != p.epoch) {
    thread_.epoch = p.epoch;
    thread_.device = 0;
    thread_.last_error = cudaSuccess;
    thread_.capture_mode = cudaStreamCaptureModeGlobal;
    thread_.clock = machine_.latest;
  }
  thread_.inside = true;
}

session::~session() {
  machine_.latest = std::max(machine_.latest, thread_.clock);
  thread_.inside = false;
}

void session::spend(double seconds) const {
  thread_.clock += seconds;
  machine_.simulation.advance(thread_.clock);
}

// The thread is inside a session already.
cudaError_t forbid(const function_id& f) noexcept {
  if (platform* gpu = the_process().machine.get()) {
    gpu->detect.report(finding_kind::forbidden_call, gpu->access_of_host(gpu->texts.id(f.name())),
                       "is called by a host function or a kernel, which must not call CUDA");
  }
  return cudaErrorNotPermitted;
}

cudaError_t admit(const session& s, const function_id& f) {
  if (f.what() == function_id::role::asks_for_errors) return cudaSuccess;
  platform& gpu = s.machine();
  const int device = s.thread().device;
  const cudaError_t error = gpu.faults.on_call(f.name(), gpu.calls);
  if (is_sticky(error)) gpu.lose(device, error);
  if (error != cudaSuccess) return error;
  if (f.unsafe_in_capture()) gpu.refuse_unsafe(s.thread());
  return f.what() == function_id::role::concerns_device ? gpu.on(device).lost : cudaSuccess;
}

void replace_machine(machine m, int devices, mode how) {
  auto& p = the_process();
  const std::lock_guard lock(p.mutex);
  this_thread().inside = true;
  p.machine.reset();
  p.machine = std::make_unique<platform>(std::move(m), devices, how);
  ++p.epoch;
  function_id::clear_counts();
  this_thread().inside = false;
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
