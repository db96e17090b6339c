// The ranges that Nsight Systems would show, as a tool linked into the program sees them.

#include "gpu.hpp"

#include <hostoffload/nvtx.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace {

std::vector<std::string> seen_by_tool;

int push(const char* message) {
  seen_by_tool.push_back(std::string("(") + message);
  return 0;
}
int pop() {
  seen_by_tool.emplace_back(")");
  return 0;
}
nvtxRangeId_t start(const char* message) {
  seen_by_tool.push_back(std::string("[") + message);
  return seen_by_tool.size();
}
void end(nvtxRangeId_t id) { seen_by_tool.push_back("]" + seen_by_tool.at(id - 1).substr(1)); }

int attach(NvtxGetExportTableFunc_t get_table) {
  const auto* const tables = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (tables->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0) return 0;
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *functions[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  *functions[NVTX_CBID_CORE_RangeStartA] = reinterpret_cast<NvtxFunctionPointer>(start);
  *functions[NVTX_CBID_CORE_RangeEnd] = reinterpret_cast<NvtxFunctionPointer>(end);
  return 1;
}

}  // namespace

namespace {

// NVTX attaches it at its first call.
[[maybe_unused]] const NvtxInitializeInjectionNvtxFunc_t tool = InitializeInjectionNvtx2_fnptr = attach;

enum class name { q, act };
using table = ho::placement<name, ho::offload_these<name::q>, ho::remat_these<name::act>>;

std::vector<std::string> ranges_of_a_step(const ho::range_observer& ranges) {
  ho::prefetch_scheduler scheduler({.window = 1024, .ranges = ranges});
  ho::offload_tensor<float, table::of<name::q>> q(scheduler, 256, {2, 4});
  ho::offload_tensor<float, table::of<name::act>> act(scheduler, 256, {2, 4});
  q.define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 1); });
  act.define([&q](std::span<float> out) -> ho::task<> {
    auto in = co_await q;
    add(nullptr, in.data(), in.data(), out.data(), out.size());
  });
  ho::offload_tensor<float, table::of<name::q>> other(scheduler, 256, {3, 4});
  other.define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 2); });
  const auto step = [&]() -> ho::task<> {
    { auto a = co_await act; }
    {
      auto b = co_await std::move(other);  // takes the window's only slot
    }
    auto c = co_await std::move(act);
  };
  seen_by_tool.clear();
  scheduler.run(step);
  return seen_by_tool;
}

}  // namespace

TEST_CASE("steps, define functions and copies are ranges for a tool") {
  const gpu g;
  const std::vector<std::string> expected{"(step 1",
                                          "[make act[2]",
                                          "[make q[2]",
                                          "(copy out q[2]",
                                          ")",
                                          "]make q[2]",
                                          "]make act[2]",
                                          "[make q[3]",
                                          "(copy out q[3]",
                                          ")",
                                          "]make q[3]",
                                          "[recompute act[2]",
                                          "(copy in q[2]",
                                          ")",
                                          "]recompute act[2]",
                                          ")"};
  CHECK(ranges_of_a_step(ho::nvtx_ranges) == expected);
}

TEST_CASE("without the observer a tool sees nothing") {
  const gpu g;
  CHECK(ranges_of_a_step({}).empty());
}

TEST_CASE("a step that fails ends its ranges") {
  const gpu g;
  ho::prefetch_scheduler scheduler({.ranges = ho::nvtx_ranges});
  ho::offload_tensor<float, table::of<name::q>> q(scheduler, 256, {0, 1});
  struct stop {};
  q.define([](std::span<float>) -> ho::task<> {
    throw stop{};
    co_return;
  });
  seen_by_tool.clear();
  const auto step = [&]() -> ho::task<> { auto a = co_await q; };
  CHECK_THROWS_AS(scheduler.run(step), stop);
  CHECK(seen_by_tool == std::vector<std::string>{"(step 1", "[make q[0]", "]make q[0]", ")"});
}
