#pragma once
// Records written by hand.

#include <hostoffload/schedule/recorded_step.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace recorded {

namespace ho = hostoffload;

/// In the order in which things happen. Lives are numbered in the order of their making.
class script {
public:
  void work(double seconds) { pending_ += seconds; }

  std::uint32_t produce(std::string name, std::size_t layer = 0) {
    const std::uint32_t life = add(std::move(name), layer);
    begin(life);
    end(life);
    return life;
  }
  void begin(std::uint32_t life) {
    const std::uint32_t at = point();
    step_.lives[life].uses.push_back({at, at});
    if (!open_.empty()) step_.makings[open_.back()].inputs.push_back({life, at});
  }
  void end(std::uint32_t life, bool last = false) {
    step_.lives[life].uses.back().end = point();
    step_.lives[life].ended = last;
  }
  std::vector<std::uint32_t> begin_making(const std::vector<std::string>& names, std::size_t layer = 0) {
    std::vector<std::uint32_t> lives;
    const std::uint32_t at = point();
    for (const std::string& name : names) {
      lives.push_back(add(name, layer));
      step_.lives[lives.back()].uses.push_back({at, at});
    }
    open_.push_back(step_.makings.size());
    step_.makings.push_back({.begin = at, .end = at, .again = false, .makes = lives, .inputs = {}});
    return lives;
  }
  void end_making() {
    ho::recorded_making& m = step_.makings[open_.back()];
    open_.pop_back();
    m.end = point();
    for (const std::uint32_t life : m.makes) step_.lives[life].uses.back().end = m.end;
  }

  ho::recorded_step end_step() {
    point();
    step_.out = step_.in = {.rate = 1e9, .rate_while_both = 1e9, .latency_s = 0};
    return std::move(step_);
  }

private:
  std::uint32_t add(std::string name, std::size_t layer) {
    const auto number = static_cast<std::uint32_t>(step_.lives.size());
    step_.lives.push_back({.name = std::move(name), .layer = layer, .bytes = 1024, .tensor = number});
    return number;
  }
  std::uint32_t point() {
    step_.segment_s.push_back(std::exchange(pending_, 0));
    return static_cast<std::uint32_t>(step_.segment_s.size());
  }

  ho::recorded_step step_;
  std::vector<std::size_t> open_;
  double pending_ = 0;
};

}  // namespace recorded
