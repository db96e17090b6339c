// Every CUDA call of construction, steps and destruction fails once, with each error that CUDA may return there: a
// typed error that names the call, nothing leaked, nothing reported, and the next step right, if the device still
// works.

#include "catch.hpp"
#include "program.hpp"
#include "table.hpp"

#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/faults.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ho = hostoffload;
namespace vg = hostoffload::virtual_gpu;

namespace {

struct attempt {
  bool constructed = false;
  bool threw = false;
  bool typed = true;       // as cuda_error that names the failed call
  bool next_right = true;  // the step after the failed one
  std::string message;
  std::size_t leaks = 0;
  std::string findings;
  std::optional<vg::failure> failed;
};

attempt run(const proof::shape& s, const std::vector<float>& expected, std::uint64_t n, cudaError_t code) {
  attempt a;
  vg::reset(vg::gb200());
  vg::fail_call(n, code);
  try {
    std::optional<proof::program> p;
    p.emplace(s, false);
    a.constructed = true;
    try {
      for (const float batch : {1.0F, 2.0F, 3.0F, 4.0F}) p->step(batch);
      static_cast<void>(p->values());
    } catch (...) {
      a.threw = true;
      if (!vg::is_sticky(code)) {
        static_cast<void>(p->values());
        p->step(7);
        a.next_right = p->values() == expected;
      }
      throw;
    }
  } catch (const ho::cuda_error& e) {
    a.threw = true;
    a.message = e.what();
    const auto failed = vg::failed_call();
    a.typed = failed && e.code() == code && (vg::is_sticky(code) || e.call() == failed->function) &&
              (code != cudaErrorMemoryAllocation || dynamic_cast<const ho::out_of_memory*>(&e) != nullptr ||
               e.call().find("lloc") == std::string::npos);
  } catch (const std::exception& e) {
    a.threw = true;
    a.typed = false;
    a.message = e.what();
  }
  a.failed = vg::failed_call();
  a.leaks = vg::leaks().size();
  for (const vg::finding& f : vg::findings()) a.findings += f.message + '\n';
  return a;
}

/// What is called when things end: an error there has nowhere to go.
bool is_quiet(const std::string& function) {
  static const std::vector<std::string> ends{"cudaFree", "cudaFreeHost", "cudaEventDestroy", "cudaStreamDestroy",
                                             "cudaStreamSynchronize"};
  return std::find(ends.begin(), ends.end(), function) != ends.end();
}

bool may_return(const std::string& function, cudaError_t code) {
  const std::vector<cudaError_t> plausible = vg::plausible_errors(function);
  return std::find(plausible.begin(), plausible.end(), code) != plausible.end();
}

}  // namespace

TEST_CASE("every CUDA call fails once, for lack of memory and with every other error it may return", "[failures]") {
  std::map<std::string, std::size_t> rows;
  for (const std::uint64_t seed : {4U, 6U, 10U, 17U, 29U}) {
    proof::shape s = proof::shape_of(seed);
    s.layers = std::min<std::size_t>(s.layers, 3);
    proof::prepare(s);
    vg::reset(vg::gb200());
    std::vector<float> expected;
    std::uint64_t calls = 0;
    {
      proof::program reference(s, false);
      reference.step(7);
      expected = reference.values();
    }
    vg::reset(vg::gb200());
    {
      proof::program whole(s, false);
      for (const float batch : {1.0F, 2.0F, 3.0F, 4.0F}) whole.step(batch);
      static_cast<void>(whole.values());
    }
    calls = vg::calls_until_now();
    REQUIRE(calls > 100);
    for (std::uint64_t n = 1; n <= calls; ++n) {
      std::string function;
      for (const cudaError_t code :
           {cudaErrorMemoryAllocation, cudaErrorLaunchOutOfResources, cudaErrorIllegalAddress}) {
        if (code != cudaErrorMemoryAllocation && !may_return(function, code)) continue;
        const attempt a = run(s, expected, n, code);
        REQUIRE(a.failed);
        function = a.failed->function;
        INFO(to_string(s) << "; call " << n << " of " << calls << ", " << function << " returns "
                          << cudaGetErrorName(code) << ": " << a.message << '\n'
                          << a.findings);
        CHECK((a.threw || is_quiet(function)));
        CHECK(a.typed);
        CHECK(a.next_right);
        CHECK(a.findings.empty());
        const bool frees = function == "cudaFree" || function == "cudaFreeHost" || function == "cudaEventDestroy" ||
                           function == "cudaStreamDestroy";
        CHECK(a.leaks == (frees && !vg::is_sticky(code) ? 1 : 0));
        if (a.threw && (function == "cudaMemcpyAsync" || function == "cudaStreamWaitEvent")) {
          CHECK_THAT(a.message, has_text(" for tensor ") && has_text(" on stream "));
        }
        ++rows["| " + function + " | " + cudaGetErrorName(code) + " | " + (is_quiet(function) ? "quiet" : "thrown") +
               " |"];
      }
    }
  }
  std::vector<std::string> table;
  for (const auto& [row, count] : rows) table.push_back(row + " " + std::to_string(count) + " |");
  proof::check_table("| call | error | told | times |", table);
}
