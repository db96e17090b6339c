#pragma once
// What one step did, in numbers. Text and JSON are in report/print.hpp.

#include <hostoffload/placement.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace hostoffload::inline v0 {

/// All tensors of one name.
struct tensor_report {
  std::string_view name{};
  std::size_t saved = 0;  // tensors, by what became of their placement
  std::size_t offloaded = 0;
  std::size_t rematerialised = 0;
  std::size_t fell_back = 0;      // would have been offloaded, but the host memory did not last
  std::size_t made_again = 0;     // could be offloaded, and the plan is faster when they are rematerialised
  std::size_t planned_bytes = 0;  // that the placement takes off the device between forward and backward
  std::size_t freed_bytes = 0;    // whose device memory did go to others in that time
  std::size_t bytes_out = 0;      // device to host
  std::size_t bytes_in = 0;       // host to device
  std::size_t recomputed = 0;     // times that a define function ran again
  std::size_t late_fetches = 0;   // awaited before a copy in had been issued
};

struct step_report {
  std::uint64_t step = 0;              // counted from 1; 0: no step has completed
  double step_s = 0;                   // on the compute stream, where the step was sampled; else 0
  double exposed_s = 0;                // estimate: what the compute stream spent waiting for fetches and for the window
  bool sampled = false;                // whether the two times above were measured
  std::size_t device_bytes = 0;        // allocated by the scheduler
  std::size_t device_peak_bytes = 0;   // of it in slots at one time
  std::size_t window_bytes = 0;        // the bound; 0: unlimited
  std::size_t window_peak_bytes = 0;   // of slots that hold an offloaded tensor
  std::size_t least_window_bytes = 0;  // largest set of offloaded bytes in use at one time
  std::size_t host_bytes = 0;          // pinned
  std::size_t host_peak_bytes = 0;     // of it holding values at one time
  std::size_t bytes_out = 0;
  std::size_t bytes_in = 0;
  std::size_t copies_out = 0;
  std::size_t copies_in = 0;
  std::size_t late_fetches = 0;
  std::size_t host_waits = 0;  // times that the host had to wait for the device
  std::size_t replays = 0;     // of a captured step: launches so far, this one included; 0: a step of its own
  std::vector<std::string_view> warnings{};  // what keeps copies from being hidden; each in one report only

  bool repeated = false;              // the step asked what an earlier one had: enqueued from that one's list of calls
  bool planned = false;               // the step followed a plan to its end
  std::size_t plan_departures = 0;    // 1: it did not, though there was one
  std::string_view plan_note{};       // why there is no plan; empty when there is one, or none is wanted
  double with_plan_s = 0;             // of the fastest of some steps with the plan that was compared last, …
  double without_plan_s = 0;          // … and without one; 0: none was compared
  std::size_t plan_window_bytes = 0;  // of the window that the plan fills: its peak
  std::size_t plan_alive_bytes = 0;   // the largest sum of the plan's slots at one time, which no packing goes below
  std::size_t window_top_bytes = 0;   // of the window up to the highest byte of a planned slot that was taken
  double plan_step_s = 0;             // predicted
  double plan_exposed_s = 0;
  std::string_view
      plan_choice{};          // why offload_or_remat tensors are copied, or some of them made again; empty: none is
  double plan_offload_s = 0;  // predicted step time when all are copied; 0: not compared
  double plan_remat_s = 0;    // when all that can be are made again; 0: not compared, or it does not fit

  std::vector<tensor_report> tensors{};
};

}  // namespace hostoffload::inline v0
