#pragma once
// Faults on demand, for tests of what is built on CUDA: calls that fail, waits that do not happen, operations that take
// longer, effects that happen in another order than usual. reset() forgets all of it. Thread safe.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hostoffload/virtual_gpu/control.hpp>

namespace hostoffload::inline v0::virtual_gpu {

// --- Calls that fail

/// The n-th call from now (1: the next), on whichever thread, fails: it does nothing but return `code`, which is then
/// the thread's last error. With a `function` only its calls count. All functions of the API count, hostoffload_launch
/// too, but cudaGetLastError, cudaPeekAtLastError, cudaGetErrorName and cudaGetErrorString. One failure at a time: an
/// earlier one, still to come or past, is forgotten. Throws std::invalid_argument when n is 0 or `code` is success.
///
/// A sticky code is an error of the caller's current device, as if something that ran there had just failed. What that
/// device still had to do leaves no effect. Every later call that concerns the device returns the code and does
/// nothing, frees and destructions too, and cudaGetLastError returns it again and again. Calls that need no device go
/// on: cudaGetDeviceCount, cudaGetDevice, cudaSetDevice, cudaDeviceGetAttribute, cudaGetDeviceProperties, versions.
/// CUDA says that the process must then end, which gives everything back: so nothing of that device counts as a leak.
/// reset() stands for the new process; cudaDeviceReset() too, which is kinder than CUDA is.
void fail_call(std::uint64_t n, cudaError_t code, std::string_view function = {});

struct failure {
  std::string function;
  std::uint64_t call = 0;  ///< the n-th CUDA call since reset(), as in findings
  cudaError_t code = cudaSuccess;
};
/// The call that fail_call() made fail; nothing if none was reached.
[[nodiscard]] std::optional<failure> failed_call();

/// Calls since reset() of the functions that fail_call() counts.
[[nodiscard]] std::uint64_t calls_until_now();

/// "This leaves the process in an inconsistent state and any further CUDA work will return the same error" (CUDA
/// Runtime API, error types), and errors of the hardware.
[[nodiscard]] bool is_sticky(cudaError_t code) noexcept;

/// What a call of a function of the API with valid arguments can still return: cudaErrorMemoryAllocation where CUDA
/// documents it, of the runtime's function or of the driver's that it stands on; cudaErrorLaunchOutOfResources of a
/// launch; cudaErrorIllegalAddress, as one sticky error, wherever errors of earlier work come back. Nothing for
/// functions that go on without a device.
[[nodiscard]] std::vector<cudaError_t> plausible_errors(std::string_view function);

// --- Waits that do not happen

/// The n-th wait from now (1: the next) has no effect, neither in order nor for the detector. Waits are the calls of
/// cudaStreamWaitEvent that return success for an event that was recorded. Starts watch_waits(). A second call forgets
/// a wait still to come.
void ignore_wait(std::uint64_t n);
/// From now on no wait on `on_stream` for an event recorded on `from_stream` has an effect; streams as cudaStreamGetId
/// says. Adds to earlier calls. Starts watch_waits().
void ignore_waits(std::uint64_t from_stream, std::uint64_t on_stream);

struct wait_record {
  std::uint64_t call = 0;          ///< the n-th CUDA call since reset(), as in findings
  std::uint64_t stream = 0;        ///< that waits
  std::uint64_t event_stream = 0;  ///< on which the event was recorded
  bool ignored = false;
  /// When the wait was issued its stream was already ordered behind all that the event is behind: the wait was
  /// redundant. By the same stream, an earlier wait, the default stream, or because the host knew that it was done.
  bool implied = false;
  /// The last operation of the stream, at the time of waits() or when it was destroyed, is ordered behind all that the
  /// event is behind by another path: of an ignored wait only. What the host learned after that operation does not
  /// count; what it knew before does, so ask before the next step. In a capture: a later wait of it makes the path.
  bool implied_later = false;
};
/// Watches waits from now on, and forgets those seen before. The first of the functions above does so by itself.
void watch_waits();
[[nodiscard]] std::vector<wait_record> waits();

// --- Operations that take longer

/// Operations of a kind that are enqueued from now on take so many virtual seconds longer, holding what they use. All
/// that match add up. Throws std::invalid_argument for negative time.
void delay(operation_kind kind, double seconds);
/// The same of operations in whose name, as in timeline(), the text occurs.
void delay(std::string_view part_of_name, double seconds);

// --- Another order

/// Kernels and copies take effect in a random order that streams, events, the default stream's rules and the host's
/// waiting allow, decided when the host waits or asks, or when much is left to do. Virtual times, the timeline and
/// findings are the same. A program that the detector has an objection to may differ, or touch memory that is gone. 0:
/// what is left takes effect, then all is as usual.
void execution_order(std::uint64_t seed);

/// Forgets all that this header has armed or seen, and executes in the usual order. A sticky error stays.
void clear_faults();

}  // namespace hostoffload::inline v0::virtual_gpu
