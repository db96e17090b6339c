#include "library_driver.hpp"

#include <algorithm>

namespace library_driver {

namespace {

bool says(const std::exception& error, const char* part) {
  return std::string(error.what()).find(part) != std::string::npos;
}

}  // namespace

driver::ending driver::one_step() {
  throw_in_ = in_.one_in(4) ? 1 + in_.below(20) : 0;
  const std::size_t begin = in_.position();
  const ending first = play(false);
  if (first == ending::no_more || in_.over() || !in_.one_in(3)) return first;
  return repeat(in_.since(begin));
}

/// A step, by what comes next in the bytes; or its capture.
driver::ending driver::play(bool capture) {
  auto k = static_cast<kind>(in_.below(5));
  if (mostly_either_ && k == kind::several_coroutines) k = kind::trainer;
  if (mostly_either_ && k == kind::one_coroutine) k = kind::trainer_coroutine;
  constexpr std::array kinds{"straight-line step", "step of one coroutine", "step of several coroutines",
                             "trainer's step", "trainer's step in a coroutine"};
  note((capture ? "capture of a " : "") + std::string(kinds.at(static_cast<std::size_t>(k))),
       static_cast<std::size_t>(step_), nullptr);
  const bool in_lines = k == kind::straight || k == kind::trainer;
  const auto lines = [this, k] { k == kind::straight ? straight() : straight_trainer(); };
  const auto begin = [this, k] { return coroutine(k); };
  leases_are_left_ = false;
  ending how = ending::good;
  if (capture) {
    if (launched_with_) check_sights();
    graph_.reset();
    graph_sights_.clear();
    must_be_stale_ = false;
    capturing_ = true;
    how = end_of(k, [&] { graph_.emplace(in_lines ? scheduler_->capture(lines) : scheduler_->capture(begin)); });
    capturing_ = false;
  } else if (in_lines) {
    how = end_of(k, [&] {
      ho::step s(*scheduler_);
      lines();
      s.end();
    });
  } else {
    how = end_of(k, [&] { scheduler_->run(begin); });
  }
  if (leases_are_left_ && how == ending::good) fail("not refused: the end of a step while a lease is held");
  throw_in_ = 0;
  leases_.clear();
  forget_lives();
  ++step_;
  if (!capture) check_step(how == ending::good);
  return how;
}

template <class Step>
driver::ending driver::end_of(kind k, const Step& step) {
  try {
    step();
    return ending::good;
  } catch (const trainer_error& error) {
    history_ += std::string("thrown: ") + error.what() + "\n";
  } catch (const ho::window_error& error) {
    history_ += std::string(error.what()) + "\n";
    if (window_ == ho::unlimited || error.needed() <= error.window()) fail(error.what());
  } catch (const ho::host_capacity_error& error) {  // pieces of what was replaced do not serve other sizes
    if (host_capacity_ == ho::unlimited || !replaced_) fail(error.what());
    return ending::no_more;
  } catch (const ho::usage_error& error) {
    // What depends on which coroutine came first.
    const bool of_order = says(error, "of its group begins anew") || says(error, "while its group is needed") ||
                          says(error, "is being made by a coroutine: co_await it");
    const bool of_capture = capturing_ && says(error, "a captured step cannot allocate device memory");
    const bool of_lease = leases_are_left_ && says(error, "the step ends while a lease on");
    if (!(k == kind::several_coroutines && of_order) && !of_capture && !of_lease) fail(error.what());
    history_ += std::string(error.what()) + "\n";
  }
  return ending::failed;
}

/// The same step again and again, with departures; each time with other values.
driver::ending driver::repeat(const std::vector<std::uint8_t>& script) {
  ending last = ending::good;
  const std::size_t calm = in_.one_in(2) ? 48 : 12;  // so many that nothing is changed in most
  for (std::size_t times = 4 + in_.below(12); times != 0 && last != ending::no_more; --times) {
    std::vector<std::uint8_t> now = script;
    bool capture = false;
    switch (in_.below(calm)) {
      case 0:
        now.resize(in_.below(now.size() + 1));
        break;
      case 1:
        now.at(in_.below(now.size())) = static_cast<std::uint8_t>(in_.below(256));
        break;
      case 2:
        throw_in_ = 1 + in_.below(20);
        break;
      case 3:
        replace(pick(), false);
        break;
      case 4:
      case 5:
        capture = true;
        break;
      case 6:
        launch();
        break;
      default:
        break;
    }
    last = play_again(std::move(now), capture);
    if (capture && last == ending::good) launch();
  }
  return last;
}

driver::ending driver::play_again(std::vector<std::uint8_t> script, bool capture) {
  const choices rest = std::exchange(in_, choices(script));
  const ending how = play(capture);
  in_ = rest;
  return how;
}

/// With another input than the last time.
void driver::launch() {
  if (!graph_) return;
  if (launched_with_) check_sights();
  const auto given = static_cast<float>(8 * in_.below(16));
  note("launch", graph_->launches(), nullptr);
  auto* const input = static_cast<float*>(input_->region().begin);
  ho::launch(compute_.get(), 1, [=](std::size_t) { *input = given; },
             {.name = "give", .writes = {{input, sizeof *input}}});
  try {
    graph_->launch();
  } catch (const ho::stale_graph_error& error) {
    history_ += std::string(error.what()) + "\n";
    if (!must_be_stale_ && !plans_) fail(error.what());
    graph_.reset();
    ++seen_.stale;
    return;
  }
  if (must_be_stale_) fail("not refused: a launch of a step whose tensor is gone");
  ++seen_.launches;
  launched_with_ = given;
  if (in_.one_in(2)) return;
  check_sights();
  if (const ho::step_report r = scheduler_->report(); r.replays != graph_->launches()) fail("no report of a launch");
}

void driver::check_step(bool succeeded) {
  if (in_.one_in(3)) return;  // the device goes on while the next step is enqueued
  check_sights();
  const ho::step_report r = scheduler_->report();
  if (window_ != ho::unlimited && r.window_peak_bytes > window_) fail("the window was exceeded");
  if (host_capacity_ != ho::unlimited && r.host_bytes > host_capacity_) fail("the host memory was exceeded");
  if (r.host_peak_bytes > r.host_bytes) fail("the host's peak is more than its memory");
  if (!succeeded) return;
  if (r.step == 0) fail("no report");
  seen_.departed += r.plan_departures != 0 ? 1 : 0;
  if (r.planned) {
    ++seen_.planned;
    if (r.plan_departures != 0) fail("a step that both follows its plan and leaves it");
    if (r.window_peak_bytes > r.plan_window_bytes || r.window_top_bytes > r.plan_window_bytes)
      fail("a planned step takes more of the window than planned");
  }
  const ho::tensor_report& all = r.tensors.at(0);
  seen_.chosen += all.made_again != 0 ? 1 : 0;
  const auto fallen_back = static_cast<std::size_t>(std::count_if(items_.begin(), items_.end(), [](const item& x) {
    const bool may = x.wanted == ho::choice::offload_or_save || x.wanted == ho::choice::offload_or_remat;
    return may && x.t->placed() != ho::choice::offload;
  }));
  seen_.fallen_back += fallen_back;
  if (all.fell_back + all.made_again != fallen_back) fail("the report does not have what fell back");
  if (all.saved + all.offloaded + all.rematerialised != items_.size()) fail("the report does not have all tensors");
  if (in_.one_in(4)) check_record();
}

}  // namespace library_driver
