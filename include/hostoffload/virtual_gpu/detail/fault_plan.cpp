#include <hostoffload/virtual_gpu/detail/fault_plan.hpp>

#include <hostoffload/virtual_gpu/detail/graph.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

void fault_plan::fail(std::uint64_t n, cudaError_t code, std::string_view function) {
  until_failure_ = n;
  code_ = code;
  only_ = function;
  failed_.reset();
}

cudaError_t fault_plan::on_call(std::string_view function, std::uint64_t call) {
  ++counted_;
  if (until_failure_ == 0 || (!only_.empty() && only_ != function) || --until_failure_ > 0) return cudaSuccess;
  failed_ = failure{std::string(function), call, code_};
  return code_;
}

void fault_plan::watch() {
  watching_ = true;
  waits_.clear();
}

void fault_plan::ignore_wait(std::uint64_t n) {
  if (!watching_) watch();
  until_ignored_ = n;
}

void fault_plan::ignore_waits(std::uint64_t from, std::uint64_t on) {
  if (!watching_) watch();
  ignored_roles_.emplace(from, on);
}

bool fault_plan::on_wait(const stream& s, const event& e, std::uint64_t call, bool implied) {
  const bool by_number = until_ignored_ > 0 && --until_ignored_ == 0;
  watched w;
  w.seen = {call, s.number, e.stream, by_number || ignored_roles_.contains({e.stream, s.number}), implied, false};
  w.on = w.seen.ignored ? &s : nullptr;
  w.event_lane = e.in_lane;
  w.anchor = e.anchor;
  if (e.captured_in != 0) w.captured = e.captured;
  waits_.push_back(w);
  return w.seen.ignored;
}

bool fault_plan::watched::implied_now() const { return on != nullptr && on->clock.after(event_lane, anchor); }

void fault_plan::stream_gone(const stream& s) {
  for (auto& w : waits_) {
    if (w.on != &s) continue;
    w.seen.implied_later = w.implied_now();
    w.on = nullptr;
  }
}

void fault_plan::capture_ends(const stream& s, const graph_nodes& nodes) {
  for (auto& w : waits_) {
    if (w.on != &s || w.captured.empty()) continue;
    w.seen.implied_later = nodes.are_behind(s.behind, w.captured);
    w.on = nullptr;
  }
}

std::vector<wait_record> fault_plan::waits() const {
  std::vector<wait_record> result;
  result.reserve(waits_.size());
  for (const auto& w : waits_) {
    result.push_back(w.seen);
    if (w.on != nullptr) result.back().implied_later = w.implied_now();
  }
  return result;
}

void fault_plan::delay(std::optional<operation_kind> kind, std::string_view part_of_name, double seconds) {
  delays_.push_back({kind, std::string(part_of_name), seconds});
}

double fault_plan::delay_of(operation_kind kind, std::string_view name) const {
  double sum = 0;
  for (const auto& d : delays_) {
    if (d.kind ? *d.kind == kind : name.find(d.part_of_name) != std::string_view::npos) sum += d.seconds;
  }
  return sum;
}

void fault_plan::clear() {
  const auto counted = counted_;
  *this = {};
  counted_ = counted;
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
