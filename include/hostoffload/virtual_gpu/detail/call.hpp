#pragma once
// What all functions of the API have in common: one lock, the caller's virtual clock, counting, the last error.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include <hostoffload/virtual_gpu/detail/platform.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

/// Name and number of calls of a function of the API; a static in each function, on one list.
class function_id {
public:
  enum class role : std::uint8_t { concerns_device, goes_on_without, asks_for_errors };

  explicit function_id(std::string_view name);
  function_id(const function_id&) = delete;
  function_id& operator=(const function_id&) = delete;

  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  [[nodiscard]] role what() const noexcept { return role_; }
  /// Whether CUDA forbids it while a stream is captured: see refuse_unsafe().
  [[nodiscard]] bool unsafe_in_capture() const noexcept { return unsafe_in_capture_; }
  [[nodiscard]] static role role_of(std::string_view name) noexcept;
  void count() noexcept { calls_.fetch_add(1, std::memory_order_relaxed); }

  /// All functions called since clear_counts(), by name.
  [[nodiscard]] static std::vector<std::pair<std::string_view, std::uint64_t>> counts();
  static void clear_counts();

private:
  static std::atomic<function_id*>& first() noexcept;

  std::string_view name_;
  role role_;
  bool unsafe_in_capture_;
  std::atomic<std::uint64_t> calls_{0};
  function_id* next_ = nullptr;
};

/// The lock, and what it guards.
class session {
public:
  session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session();

  [[nodiscard]] platform& machine() const noexcept { return machine_; }
  [[nodiscard]] thread_state& thread() const noexcept { return thread_; }

  /// The calling thread works for `seconds`; the device keeps up.
  void spend(double seconds) const;

private:
  std::unique_lock<std::mutex> lock_;
  platform& machine_;
  thread_state& thread_;
};

[[nodiscard]] thread_state& this_thread() noexcept;
/// No session may be open on this thread.
void replace_machine(machine m, int devices, mode how);

/// What the body of an API function works with.
struct context {
  const session& s;
  platform& gpu;
  thread_state& thread;
  std::uint32_t name;  // of the function

  void spend(double seconds) const { s.spend(seconds); }
};

/// Of a call from inside a kernel or a host function, which must not call CUDA.
[[nodiscard]] cudaError_t forbid(const function_id& f) noexcept;

/// Success, or what the call returns instead of doing anything: it fails on demand, or its device is lost.
[[nodiscard]] cudaError_t admit(const session& s, const function_id& f);

/// Runs the body of an API function, whose call costs the thread `cost`.
template <typename Body>
cudaError_t call(function_id& f, double host_costs::*cost, Body body) noexcept {
  if (this_thread().inside) return forbid(f);
  const session s;
  const context c{s, s.machine(), s.thread(), s.machine().texts.id(f.name())};
  ++c.gpu.calls;
  f.count();
  cudaError_t error = cudaSuccess;
  try {
    error = admit(s, f);
    if (error == cudaSuccess) {
      s.spend(c.gpu.model.host.*cost);
      error = body(c);
    }
  } catch (const std::bad_alloc&) {
    error = cudaErrorMemoryAllocation;
  } catch (const device_lost& lost) {
    error = lost.code;
  } catch (const refused& r) {
    error = r.code;
  }
  if (error != cudaSuccess) c.thread.last_error = error;
  return error;
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
