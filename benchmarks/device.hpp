#pragma once
// What the benchmarks need of a device beyond the CUDA runtime: a GPU where nvcc compiles, else the virtual one.

#include <hostoffload/cuda/allocation.hpp>
#include <hostoffload/cuda/error.hpp>
#include <hostoffload/cuda/event.hpp>
#include <hostoffload/cuda/stream.hpp>
#include <hostoffload/launch.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#if defined(__CUDACC__)
#include <chrono>
#else
#include <hostoffload/virtual_gpu/control.hpp>
#endif

namespace bench {

namespace ho = hostoffload;

/// For byte counts and rates that are read out in tables.
inline constexpr double giga = 1e9;

/// Whether kernels run and copies copy; none, on a virtual GPU: they only take their time, so that sizes are free.
enum class storage { real, none };

#if defined(__CUDACC__)
inline constexpr bool on_virtual_gpu = false;

inline double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void choose_machine(std::string_view name, storage /*always real*/) {
  if (!name.empty()) throw std::invalid_argument("--machine describes a virtual GPU; this program runs on a real one");
}
#else
inline constexpr bool on_virtual_gpu = true;

/// Virtual.
inline double host_seconds() { return ho::virtual_gpu::now(); }

inline void choose_machine(std::string_view name, storage kept) {
  namespace vg = ho::virtual_gpu;
  vg::reset(name.empty() ? vg::gb200() : vg::machine_named(name), 1,
            kept == storage::real ? vg::mode::execute : vg::mode::dry);
  vg::record_timeline(false);
}
#endif

inline std::string device_name() {
  cudaDeviceProp properties{};
  ho::check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return static_cast<const char*>(properties.name);
}

/// Holds up a stream until open(), so that everything is enqueued before the first measured operation starts. What is
/// enqueued in between must not wait for the device.
class latch {
public:
#if defined(__CUDACC__)
  latch() : flag_(sizeof(int)), open_(static_cast<volatile int*>(flag_.region().begin)) { *open_ = 0; }
  latch(const latch&) = delete;
  latch& operator=(const latch&) = delete;
  ~latch() { open(); }  // or whoever frees memory next would wait for ever
  void close(cudaStream_t stream) {
    *open_ = 0;
    volatile int* const open = open_;
    ho::launch(stream, 1,
               [=] HOSTOFFLOAD_DEVICE(std::size_t) {
                 while (*open == 0) {
                 }
               },
               {.name = "latch"});
  }
  void open() { *open_ = 1; }

private:
  ho::pinned_allocation flag_;
  volatile int* open_;
#else
  /// Longer than anybody enqueues.
  void close(cudaStream_t stream) {
    constexpr double seconds = 10e-3;
    ho::launch(stream, 1, [](std::size_t) {},
               {.name = "latch", .bytes = seconds * ho::virtual_gpu::current_machine().hbm.value});
  }
  void open() {}
#endif
};

[[nodiscard]] inline double seconds_between(const ho::event& begin, const ho::event& end) {
  float milliseconds = 0;
  ho::check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

[[nodiscard]] inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Google Benchmark's main, with --machine NAME for the virtual GPU. `register_all` registers the benchmarks,
/// `summarise` prints, to standard error, the ratio that the program exists for.
template <class Register, class Summarise>
int run(int argc, char** argv, Register register_all, Summarise summarise, storage kept = storage::real) try {
  if (std::find(argv, argv + argc, std::string_view("--help")) != argv + argc) {
    std::cout << "Beside Google Benchmark's options, on a virtual GPU: --machine=NAME, the GPU described (gb200)\n\n";
  }
  benchmark::Initialize(&argc, argv);
  std::string machine;
  constexpr std::string_view option = "--machine=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(option)) {
      throw std::invalid_argument("unknown argument " + std::string(argument) +
                                  "; it takes --machine=NAME and --help's");
    }
    machine = argument.substr(option.size());
  }
  choose_machine(machine, kept);
  benchmark::AddCustomContext("device", device_name());
  benchmark::AddCustomContext("times", on_virtual_gpu ? "virtual" : "measured");
  register_all();
  const std::size_t ran = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  if (ran == 0) return 2;  // said already: the filter matches none
  summarise();
  return 0;
} catch (const std::exception& e) {
  std::cerr << std::filesystem::path(argv[0]).filename().string() << ": " << e.what() << '\n';
  return 2;
}

}  // namespace bench
