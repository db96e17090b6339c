#pragma once
// Each CUDA call of some steps of a program fails once.

#include "catch.hpp"
#include "program.hpp"

#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/faults.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace proof {

/// Builds programs of the shape, each warmed up by `warm_up`, and fails another CUDA call of `steps` in each: that is a
/// typed error, nothing is found or leaked, and `again` gives the values expected. How many calls there are.
std::size_t fail_each_call(const shape& s, const std::vector<float>& expected, auto warm_up, auto steps, auto again) {
  namespace vg = hostoffload::virtual_gpu;
  for (std::uint64_t n = 1;; ++n) {
    vg::reset(vg::gb200());
    {
      program p(s, false);
      warm_up(p);
      vg::fail_call(n, cudaErrorMemoryAllocation);
      bool threw = false;
      try {
        steps(p);
      } catch (const ho::cuda_error& e) {
        threw = true;
        CHECK(e.call() == vg::failed_call()->function);
      }
      if (!vg::failed_call()) return n - 1;
      INFO(to_string(s) << "; call " << n << ", " << vg::failed_call()->function);
      CHECK(threw);
      static_cast<void>(p.values());
      CHECK(again(p) == expected);
      for (const vg::finding& f : vg::findings()) FAIL_CHECK(f.message);
    }
    CHECK(vg::leaks().empty());
  }
}

}  // namespace proof
