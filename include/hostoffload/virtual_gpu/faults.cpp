#include <hostoffload/virtual_gpu/faults.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>

#include <hostoffload/virtual_gpu/detail/call.hpp>

namespace hostoffload::inline v0::virtual_gpu {
namespace {

using detail::session;

// The numbers are of cudaErrorContained and cudaErrorTensorMemoryLeak, which older toolkits do not have.
constexpr std::array<int, 14> sticky_errors{cudaErrorECCUncorrectable,
                                            cudaErrorNvlinkUncorrectable,
                                            226,
                                            cudaErrorIllegalAddress,
                                            cudaErrorLaunchTimeout,
                                            cudaErrorAssert,
                                            cudaErrorHardwareStackError,
                                            cudaErrorIllegalInstruction,
                                            cudaErrorMisalignedAddress,
                                            cudaErrorInvalidAddressSpace,
                                            cudaErrorInvalidPc,
                                            cudaErrorLaunchFailure,
                                            721,
                                            cudaErrorExternalDevice};

// "Returns: …, cudaErrorMemoryAllocation" of these or of the driver's functions under them (cuStreamCreate,
// cuMemPoolCreate, cuGraphInstantiate); cudaMallocAsync calls it cudaErrorOutOfMemory.
constexpr std::array<std::string_view, 14> allocating{"cudaMalloc",
                                                      "cudaMallocAsync",
                                                      "cudaMallocFromPoolAsync",
                                                      "cudaHostAlloc",
                                                      "cudaMallocHost",
                                                      "cudaHostRegister",
                                                      "cudaHostGetDevicePointer",
                                                      "cudaMemPoolCreate",
                                                      "cudaStreamCreate",
                                                      "cudaStreamCreateWithFlags",
                                                      "cudaStreamCreateWithPriority",
                                                      "cudaEventCreate",
                                                      "cudaEventCreateWithFlags",
                                                      "cudaGraphInstantiate"};

template <std::size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

double checked(double seconds) {
  if (!(seconds >= 0)) throw std::invalid_argument("virtual_gpu::delay: time does not run backwards");
  return seconds;
}

}  // namespace

bool is_sticky(cudaError_t code) noexcept {
  return std::find(sticky_errors.begin(), sticky_errors.end(), static_cast<int>(code)) != sticky_errors.end();
}

std::vector<cudaError_t> plausible_errors(std::string_view function) {
  std::vector<cudaError_t> result;
  if (among(allocating, function)) result.push_back(cudaErrorMemoryAllocation);
  if (function == "hostoffload_launch") result.push_back(cudaErrorLaunchOutOfResources);
  using id = detail::function_id;
  if (id::role_of(function) == id::role::concerns_device) result.push_back(cudaErrorIllegalAddress);
  return result;
}

void fail_call(std::uint64_t n, cudaError_t code, std::string_view function) {
  if (n == 0 || code == cudaSuccess) throw std::invalid_argument("virtual_gpu::fail_call: which call, and how?");
  session().machine().faults.fail(n, code, function);
}

std::optional<failure> failed_call() { return session().machine().faults.failed(); }

std::uint64_t calls_until_now() { return session().machine().faults.counted(); }

void ignore_wait(std::uint64_t n) {
  if (n == 0) throw std::invalid_argument("virtual_gpu::ignore_wait: the first wait has number 1");
  session().machine().faults.ignore_wait(n);
}

void ignore_waits(std::uint64_t from_stream, std::uint64_t on_stream) {
  session().machine().faults.ignore_waits(from_stream, on_stream);
}

void watch_waits() { session().machine().faults.watch(); }

std::vector<wait_record> waits() { return session().machine().faults.waits(); }

void delay(operation_kind kind, double seconds) { session().machine().faults.delay(kind, {}, checked(seconds)); }

void delay(std::string_view part_of_name, double seconds) {
  session().machine().faults.delay({}, part_of_name, checked(seconds));
}

void execution_order(std::uint64_t seed) { session().machine().order_of_effects.choose(seed); }

void clear_faults() {
  const session s;
  s.machine().faults.clear();
  s.machine().order_of_effects.choose(0);
}

}  // namespace hostoffload::inline v0::virtual_gpu
