#include "record_driver.hpp"

#include <hostoffload/schedule/plan_step.hpp>
#include <hostoffload/schedule/record_file.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace record_driver {

namespace {

constexpr std::string_view file = "any.record";

void need(bool good, const std::string& what) {
  if (!good) throw std::logic_error(what);
}

std::string text_of(const ho::recorded_step& step) {
  std::ostringstream out;
  ho::write_record(out, step);
  return out.str();
}

ho::recorded_step read(const std::string& text) {
  std::istringstream in(text);
  return ho::read_record(in, file);
}

void need_same_after_writing(const ho::recorded_step& step) {
  const std::string text = text_of(step);
  need(read(text) == step, "a record is not read as it was written:\n" + text);
}

/// file:line: what is wrong, in one line that a terminal shows as it is.
void need_one_line(const std::string& message) {
  const std::string start = std::string(file) + ":";
  const std::size_t digits = message.find_first_not_of("0123456789", start.size());
  const bool good =
      message.starts_with(start) && digits != std::string::npos && digits > start.size() &&
      message.compare(digits, 2, ": ") == 0 &&
      std::none_of(message.begin(), message.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; });
  need(good, "not one line with its place: " + message);
}

void check_plan(const ho::recorded_step& recorded, const ho::step_plan& plan, std::size_t window) {
  const ho::detail::prepared_step step(recorded);
  need(plan.window_bytes <= window && plan.alive_bytes <= plan.window_bytes, "a plan larger than its window");
  need(std::isfinite(plan.step_s) && plan.compute_s == step.compute_s(), "a plan without a time");
  need(plan.step_s >= plan.compute_s * (1 - 1e-9), "a step shorter than its kernels");
  need(plan.lives.size() == recorded.lives.size(), "a plan of other lives");
  const auto copied = static_cast<std::size_t>(
      std::count_if(plan.lives.begin(), plan.lives.end(), [](const ho::life_plan& l) { return l.copied; }));
  need(plan.out_order.size() == copied && plan.in_order.size() == copied, "copies out and in differ in number");
  ho::detail::plan_follower follower(step, plan);
  need(ho::detail::run_timeline(step, follower) == plan.step_s, "a plan that takes another time than it says");
  const std::vector<ho::detail::slab_stay>& stays = follower.stays();
  need(stays.size() == step.lives().size() + copied, "slots are missing");
  for (std::size_t i = 0; i < stays.size(); ++i) {
    need(stays[i].offset + stays[i].bytes <= plan.window_bytes, "a slot that ends behind the window");
    for (std::size_t j = 0; j < i; ++j) {
      const bool same_time = stays[i].begin < stays[j].end && stays[j].begin < stays[i].end;
      const bool same_bytes =
          stays[i].offset < stays[j].offset + stays[j].bytes && stays[j].offset < stays[i].offset + stays[i].bytes;
      need(!same_time || !same_bytes, "two slots in the same bytes at the same time");
    }
  }
}

class choices {
public:
  explicit choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool over() const { return next_ >= bytes_.size(); }
  std::size_t below(std::size_t n) { return over() ? 0 : bytes_[next_++] % n; }

private:
  std::span<const std::uint8_t> bytes_;
  std::size_t next_ = 0;
};

}  // namespace

bool read_any(const std::string& text) {
  ho::recorded_step step;
  try {
    step = read(text);
  } catch (const ho::usage_error& error) {
    need_one_line(error.what());
    return false;
  }
  need_same_after_writing(step);
  plan_any(step, text.size());
  return true;
}

ho::recorded_step step_from(std::span<const std::uint8_t> bytes) {
  choices in(bytes);
  ho::recorded_step step;
  constexpr std::array rates{4.0, 1e9, 200e9, 1e5, 1e15};
  const auto link = [&] {
    const double rate = rates.at(in.below(rates.size()));
    return ho::link_direction{.rate = rate,
                              .rate_while_both = rate / static_cast<double>(1 + in.below(3)),
                              .latency_s = 1e-6 * static_cast<double>(in.below(4)),
                              .idle_s = 4e-6 * static_cast<double>(in.below(3))};
  };
  step.out = link();
  step.in = link();
  const std::size_t points = 2 + in.below(24);
  const double unit = std::pow(10.0, static_cast<double>(in.below(12)) - 9);
  for (std::size_t i = 0; i < points; ++i) step.segment_s.push_back(unit * static_cast<double>(in.below(5)));
  const std::size_t scale = in.below(44);
  while (!in.over() && step.lives.size() < 24) {
    ho::recorded_life l;
    l.name = "t";
    l.layer = in.below(4);
    l.placed = in.below(5) == 4 ? ho::choice::save : ho::choice::offload;
    l.bytes = (std::size_t{1} + in.below(9)) << scale;
    l.tensor = static_cast<std::uint32_t>(step.lives.size());
    l.ended = in.below(2) != 0;
    std::size_t at = in.below(points);
    for (std::size_t uses = 1 + in.below(4); uses > 0 && at < points; --uses) {
      const std::size_t end = std::min(points, at + 1 + in.below(3));
      l.uses.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end)});
      at = end + in.below(6);
    }
    step.lives.push_back(std::move(l));
  }
  return step;
}

std::size_t plan_any(const ho::recorded_step& step, std::optional<std::size_t> only) {
  std::size_t all = 0;
  std::size_t largest = 0;
  try {
    const ho::detail::prepared_step prepared(step);
    for (const ho::detail::planned_life& l : prepared.lives()) {
      all += l.slot_bytes;
      largest = std::max(largest, l.slot_bytes);
    }
  } catch (const ho::usage_error&) {
    need(step.out.rate == 0, "a record that agrees with itself is refused");  // its link was not seen
    return 0;
  }
  std::size_t plans = 0;
  const std::array windows{std::size_t{0}, largest, largest + (all - largest) / 3, all, ~std::size_t{0}};
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (only && *only % (windows.size() + 1) != i) continue;
    const std::size_t window = windows.at(i);
    const std::optional<ho::step_plan> plan = ho::plan_step(step, window);
    need(plan || window < all,
         "no plan in " + std::to_string(window) + " bytes, where there is room for everything:\n" + text_of(step));
    if (!plan) continue;
    check_plan(step, *plan, window);
    ++plans;
  }
  if (only && *only % (windows.size() + 1) != windows.size()) return plans;
  const ho::step_plan least = ho::plan_least_window(step);
  check_plan(step, least, all);
  return plans + 1;
}

void run(std::span<const std::uint8_t> bytes) {
  read_any(std::string(bytes.begin(), bytes.end()));
  const ho::recorded_step step = step_from(bytes);
  need_same_after_writing(step);
  plan_any(step, bytes.empty() ? 0 : bytes.back());
}

}  // namespace record_driver
