#pragma once
// What a test or an example may ask of the virtual GPU beyond the CUDA runtime API: which machine it is, what it did
// and when, and what the detector found. Thread safe. Do not call these from inside a kernel.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hostoffload/virtual_gpu/machine.hpp>

namespace hostoffload::inline v0::virtual_gpu {

// --- The machine and its clock

/// execute: kernels run as functions on the host and copies copy, so that numbers are real. dry: device memory has
/// addresses without storage, kernels do not run and copies do not copy, but for keep_storage(); times, capacity and
/// findings are the same, so that a model too large for this machine can be stepped. Pinned memory takes room only
/// where the host writes to it, and reads as zero elsewhere.
enum class mode : std::uint8_t { execute, dry };

/// Starts afresh on `devices` GPUs of machine `m`: streams, events, memory, clocks, counters and findings are
/// forgotten, and handles and pointers from before are invalid. A program that never calls it has one GB200. Throws
/// std::invalid_argument when a rate or capacity is not positive or there is no device.
void reset(machine m, int devices = 1, mode how = mode::execute);

[[nodiscard]] machine current_machine();

/// In dry mode these bytes of device or pinned memory have storage, zero at first, until the allocation is freed. An
/// operation takes effect when all memory that it is declared to touch has storage: pageable memory has, and a kernel
/// must declare some. Meant for what decides what the host does next, as numbers of tokens, from the memory that they
/// are computed in to the memory that the host reads. No effect in execute mode. Throws std::invalid_argument unless
/// the bytes lie within one allocation.
void keep_storage(const void* begin, std::size_t bytes);

/// Virtual seconds of the calling host thread since reset(). A thread that makes its first call starts at the latest
/// time that any other thread has reached.
[[nodiscard]] double now();

/// The calling thread works for so many virtual seconds, outside of CUDA calls.
void host_works(double seconds);

/// Whether the calling thread is inside the virtual GPU: memory that it allocates there, also in kernels, belongs to
/// the device and not to the program under test.
[[nodiscard]] bool inside() noexcept;

// --- What happened

enum class operation_kind : std::uint8_t {
  kernel,
  copy_to_device,
  copy_to_host,
  copy_on_device,
  set,
  record,
  wait,
  allocate,
  free,
  host_function,
  graph  ///< where the launch of a graph begins or ends in a stream
};
enum class resource : std::uint8_t { none, compute, copy_engine_to_device, copy_engine_to_host, memory };

[[nodiscard]] std::string_view to_string(operation_kind kind) noexcept;
[[nodiscard]] std::string_view to_string(resource r) noexcept;

/// One operation of the device, from when it took its resource to when it was done. A wait starts when its stream
/// reaches it.
struct operation {
  operation_kind kind = operation_kind::kernel;
  std::string name;  ///< of a kernel; else the CUDA function
  int device = 0;
  std::uint64_t stream = 0;  ///< as cudaStreamGetId says; 0 is the legacy default stream
  resource uses = resource::none;
  double enqueued = 0, start = 0, end = 0;  ///< virtual seconds
  double bytes = 0, flops = 0;
  std::uint64_t call = 0;       ///< the n-th CUDA call since reset(), as in findings
  const void* to = nullptr;     ///< of a copy
  const void* from = nullptr;   ///< of a copy
  std::uint64_t waits_for = 0;  ///< of a wait: the call that recorded the event
};

/// What the device has completed so far, in order of completion: at most the last 262144.
/// Synchronise first to see all.
[[nodiscard]] std::vector<operation> timeline();
void clear_timeline();
/// Switches recording on (as after reset()) or off, for long runs.
void record_timeline(bool on);

/// How often a function of the API was called, by name ("cudaMalloc"); 0 for a name that is none.
[[nodiscard]] std::uint64_t calls(std::string_view function);
/// All functions that were called since reset() or reset_call_counts().
[[nodiscard]] std::vector<std::pair<std::string_view, std::uint64_t>> call_counts();
void reset_call_counts();

enum class direction : std::uint8_t { to_device, to_host, on_device };
struct copied {
  std::uint64_t copies = 0;
  std::uint64_t bytes = 0;
};
/// Copies enqueued since reset() or reset_call_counts(), over all devices.
[[nodiscard]] copied bytes_copied(direction d);

/// Device memory counts each allocation in multiples of 256 bytes, and what pools hold in reserve; pinned memory is of
/// the whole process, with registered memory.
struct memory_use {
  std::size_t device_bytes = 0, device_peak = 0;
  std::size_t pinned_bytes = 0, pinned_peak = 0;
};
[[nodiscard]] memory_use memory_usage(int device = 0);
/// The peaks start again at what is in use now.
void reset_peaks();

// --- What was wrong

enum class finding_kind : std::uint8_t {
  race,                   ///< two conflicting accesses of the device with no order between them
  use_after_free,         ///< memory, or a slot given back, is accessed later; or is freed before an access is over
  out_of_bounds,          ///< a range that is not within one allocation
  uninitialised_read,     ///< of bytes that nothing has written since they were allocated
  host_access_in_flight,  ///< the host touches bytes that an operation not yet waited for writes, or writes what one
                          ///< reads
  never_recorded_wait,    ///< a wait for an event that was never recorded has no effect
  lost_copy,              ///< a batch of copies in a capture is in no graph
  bad_wait,               ///< a wait for, or record of, an event that does not exist or belongs to another device
  bad_free,               ///< of what is no allocation, or no longer
  forbidden_call,         ///< a host function or a kernel calls a CUDA function
  leak
};
[[nodiscard]] std::string_view to_string(finding_kind kind) noexcept;

/// One fault. Equal ones (same kind, operations by name and kind, and streams) are counted, not repeated.
struct finding {
  finding_kind kind = finding_kind::race;
  std::string message;        ///< the whole, for people
  std::string first, second;  ///< both operations; `first` is empty where there is only one
  std::string missing_edge;   ///< what would have ordered them, and how to add it; empty where order is not the matter
  std::uint64_t count = 1;
};
/// In the order in which they were found; faults are found when an operation is enqueued, whether or not it has run.
[[nodiscard]] std::vector<finding> findings();
void clear_findings();

/// Allocations, streams, events, graphs and pools that are alive now.
[[nodiscard]] std::vector<finding> leaks();

// --- What the detector cannot see by itself

/// Declares that the host, here and now, reads or writes memory. Bytes that are neither pinned nor registered are
/// ignored.
void host_reads(const void* begin, std::size_t bytes);
void host_writes(const void* begin, std::size_t bytes);

/// For those who hand out pieces of one allocation. After slot_given_back every access enqueued is a use after free,
/// until slot_taken, after which the bytes count as never written. Order between the old accesses and the new is still
/// required.
void slot_taken(void* begin, std::size_t bytes);
void slot_given_back(void* begin, std::size_t bytes);

}  // namespace hostoffload::inline v0::virtual_gpu
