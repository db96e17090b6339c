#pragma once
// The last steps, enqueued but perhaps not completed on the device, and the times sampled in them. Nothing here waits.

#include <hostoffload/cuda/event.hpp>
#include <hostoffload/report/step_report.hpp>

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace hostoffload::inline v0::detail {

class step_history {
public:
  /// Has room for the reports of so many tensor names.
  explicit step_history(std::size_t names) {
    for (entry& e : entries_) {
      e.report.tensors.reserve(names);
      e.began.emplace(event_use::timing);
      e.ended.emplace(event_use::timing);
    }
  }

  /// Takes the oldest place. The step two before is read, if it was sampled and is complete.
  void begin(std::uint64_t step, bool sampled, cudaStream_t compute) {
    if (step > 2) read(at(step - 2));
    entry& e = at(step);
    for (auto& wait : e.waits) spare_.push_back(std::move(wait));
    e.waits.clear();
    e.waits_over = 0;
    e.sampled = sampled;
    e.completed_call = false;
    current_ = &e;
    if (sampled) e.began->operator event_ref().record(compute);
  }

  [[nodiscard]] bool samples() const noexcept { return current_ != nullptr && current_->sampled; }

  void wait_begins(cudaStream_t compute) {
    if (spare_.empty()) spare_.emplace_back(event(event_use::timing), event(event_use::timing));
    current_->waits.push_back(std::move(spare_.back()));
    spare_.pop_back();
    event_ref(current_->waits.back().first).record(compute);
  }
  void wait_ends(cudaStream_t compute) {
    event_ref(current_->waits.back().second).record(compute);
    ++current_->waits_over;
  }

  void end(const step_report& done, cudaStream_t compute) {
    current_->report = done;
    event_ref(*current_->ended).record(compute);
    current_->completed_call = true;
    current_ = nullptr;
  }
  void abandon() noexcept { current_ = nullptr; }

  /// The newest step that the device has completed; asks CUDA about each in turn.
  [[nodiscard]] step_report newest_completed() {
    entry* newest = nullptr;
    for (entry& e : entries_) {
      if (!e.completed_call || (newest != nullptr && e.report.step < newest->report.step)) continue;
      const cudaError_t state = cudaEventQuery(e.ended->get());
      if (state == cudaSuccess) {
        newest = &e;
      } else if (state != cudaErrorNotReady) {
        check(state, "cudaEventQuery");
      } else {
        ignore(state);
      }
    }
    if (newest == nullptr) return {};
    read(*newest);
    return newest->report;
  }

private:
  struct entry {
    step_report report{};
    std::optional<event> began{};
    std::optional<event> ended{};
    std::vector<std::pair<event, event>> waits{};
    std::size_t waits_over = 0;  // less than there are waits: an event could not be recorded, and the step went on
    bool sampled = false;
    bool completed_call = false;  // all of the step is enqueued
  };

  entry& at(std::uint64_t step) noexcept { return entries_[step % entries_.size()]; }

  static void read(entry& e) {
    if (!e.sampled || !e.completed_call || e.report.sampled || e.waits_over != e.waits.size()) return;
    const std::optional<double> whole = seconds_between(*e.began, *e.ended);
    if (!whole) return;
    double exposed = 0;
    for (const auto& [before, after] : e.waits) exposed += seconds_between(before, after).value_or(0);
    e.report.step_s = *whole;
    e.report.exposed_s = exposed;
    e.report.sampled = true;
  }

  std::array<entry, 4> entries_{};
  std::vector<std::pair<event, event>> spare_;
  entry* current_ = nullptr;
};

}  // namespace hostoffload::inline v0::detail
