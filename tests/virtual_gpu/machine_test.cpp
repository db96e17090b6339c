#include <cmath>
#include <cstring>
#include <stdexcept>

#include "support.hpp"

TEST_CASE("every number of a machine has its source") {
  for (const auto& name : vg::machine_names()) {
    INFO(name);
    const auto m = vg::machine_named(name);
    for (const auto& rate : m.compute) CHECK(std::strlen(rate.source) > 0);
    for (const auto* n :
         {&m.device_memory, &m.host_memory, &m.hbm, &m.peer, &m.link.to_device, &m.link.to_host, &m.link.both,
          &m.link.all_to_device, &m.link.all_to_host, &m.link.all_both, &m.link.first_latency, &m.link.queued_latency,
          &m.link.batched_latency, &m.kernel_latency, &m.wait_latency, &m.host_function, &m.host.pin_fresh,
          &m.host.pin_touched, &m.host.pageable}) {
      CHECK(n->value > 0);
      CHECK(std::strlen(n->source) > 0);
    }
  }
}

TEST_CASE("machines by name") {
  CHECK(vg::machine_names().size() == 7);
  CHECK(vg::machine_named("gb300").name == "GB300");
  CHECK(vg::machine_named("b200").link.to_host.value == 55e9);
  CHECK(vg::machine_named("a100").link.both.value == 18.5e9);
  CHECK(vg::machine_named("a100").rate(hostoffload_fp8).value == 0);
  CHECK_THROWS_WITH(vg::machine_named("GB200"),
                    "no machine is called \"GB200\"; there are gb200, gb300, gh200, h200, h100, b200, a100");
}

TEST_CASE("the matrix rate that a run assumes can be asked for") {
  vg::reset(vg::gb200());
  CHECK(vg::current_machine().rate(hostoffload_bf16).value == 1391e12);
  CHECK(std::strstr(vg::current_machine().rate(hostoffload_bf16).source, "half of the measured") != nullptr);
  CHECK(vg::h200().rate(hostoffload_bf16).value == 790e12);
}

TEST_CASE("a scaled machine keeps the ratios of the full-size model") {
  const vg::machine full = vg::gb200();
  const vg::machine small =
      vg::scaled_to(full, {.hidden = 128, .full_hidden = 8192, .element_bytes = 2, .full_element_bytes = 2});
  CHECK(small.scale.compute == Approx(1.0 / 64));
  CHECK(small.scale.bytes == Approx(1.0 / 4096));

  // A matrix product of hidden x hidden x sequence, its output, and its share of memory: all times and bytes shrink
  // alike.
  const auto flops = [](double hidden) { return 2 * hidden * hidden * (hidden / 2); };
  const auto bytes = [](double hidden) { return 2 * hidden * (hidden / 2); };
  const double compute =
      flops(128) / small.rate(hostoffload_bf16).value / (flops(8192) / full.rate(hostoffload_bf16).value);
  const double copy = bytes(128) / small.link.to_host.value / (bytes(8192) / full.link.to_host.value);
  CHECK(compute == Approx(small.scale.bytes));
  CHECK(copy == Approx(small.scale.bytes));
  CHECK(bytes(128) / small.device_memory.value == Approx(bytes(8192) / full.device_memory.value));
  CHECK(small.link.first_latency.value == Approx(7e-6 / 4096));
  CHECK(small.wait_latency.value == Approx(3e-6 / 4096));
  CHECK(small.host.launch == Approx(full.host.launch / 4096));
  CHECK(small.hbm.value == full.hbm.value);
  CHECK(small.link.all_both.value == full.link.all_both.value);

  // Elements of 4 bytes for a model of 2: more bytes, fewer FLOPs per byte.
  const vg::machine wide =
      vg::scaled_to(full, {.hidden = 128, .full_hidden = 8192, .element_bytes = 4, .full_element_bytes = 2});
  CHECK(wide.scale.compute == Approx(1.0 / 128));
  CHECK(wide.scale.bytes == Approx(1.0 / 2048));
  CHECK_THROWS_AS(vg::scaled_to(full, {.hidden = 0, .full_hidden = 8192}), std::invalid_argument);
}

TEST_CASE("a machine that cannot work is refused") {
  vg::machine m = round_numbers();
  m.hbm.value = 0;
  CHECK_THROWS_AS(vg::reset(m), std::invalid_argument);
  CHECK_THROWS_AS(vg::reset(round_numbers(), 0), std::invalid_argument);
}

TEST_CASE("devices and their properties") {
  vg::reset(vg::gb200(), 2);
  int count = 0;
  ok(cudaGetDeviceCount(&count));
  CHECK(count == 2);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  ok(cudaSetDevice(1));
  int current = 0;
  ok(cudaGetDevice(&current));
  CHECK(current == 1);

  cudaDeviceProp p{};
  ok(cudaGetDeviceProperties(&p, 0));
  CHECK(std::string_view(p.name) == "virtual GB200");
  CHECK(p.major == 10);
  CHECK(static_cast<double>(p.totalGlobalMem) == std::floor(184.3 * 1024 * 1024 * 1024));
  CHECK(p.asyncEngineCount == 2);
  int value = 0;
  ok(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  CHECK(value == p.multiProcessorCount);
  ok(cudaDeviceGetAttribute(&value, cudaDevAttrMemoryPoolsSupported, 0));
  CHECK(value == 1);
  const auto attribute = [&value](cudaDeviceAttr which) {
    ok(cudaDeviceGetAttribute(&value, which, 0));
    return value;
  };
  CHECK(attribute(cudaDevAttrComputeCapabilityMajor) == p.major);
  CHECK(attribute(cudaDevAttrComputeCapabilityMinor) == p.minor);
  CHECK(attribute(cudaDevAttrL2CacheSize) == p.l2CacheSize);
  CHECK(attribute(cudaDevAttrWarpSize) == p.warpSize);
  CHECK(attribute(cudaDevAttrMaxThreadsPerBlock) == p.maxThreadsPerBlock);
  CHECK(attribute(cudaDevAttrMaxThreadsPerMultiProcessor) == p.maxThreadsPerMultiProcessor);
  CHECK(attribute(cudaDevAttrAsyncEngineCount) == p.asyncEngineCount);
  CHECK(attribute(cudaDevAttrUnifiedAddressing) == p.unifiedAddressing);
  CHECK(attribute(cudaDevAttrHostRegisterSupported) == p.hostRegisterSupported);
  for (const auto yes : {cudaDevAttrCanMapHostMemory, cudaDevAttrConcurrentKernels,
                         cudaDevAttrStreamPrioritiesSupported, cudaDevAttrCanUseHostPointerForRegisteredMem}) {
    CHECK(attribute(yes) == 1);
  }
  CHECK(attribute(cudaDevAttrIntegrated) == 0);
  CHECK(attribute(cudaDevAttrManagedMemory) == 0);
  CHECK(attribute(cudaDevAttrPageableMemoryAccess) == 0);
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrEccEnabled, 0) == cudaErrorNotSupported);
  CHECK(cudaGetDeviceProperties(nullptr, 0) == cudaErrorInvalidValue);

  int least = -1;
  int greatest = 1;
  ok(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(least == 0);
  CHECK(greatest < least);
  int version = 0;
  ok(cudaRuntimeGetVersion(&version));
  CHECK(version == CUDART_VERSION);
  ok(cudaDriverGetVersion(&version));
  CHECK(version >= CUDART_VERSION);
}
