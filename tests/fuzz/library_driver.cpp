#include "library_driver.hpp"

#include <algorithm>

namespace library_driver {

namespace {

constexpr std::size_t most_tensors = 7;

[[noreturn]] void fail(const std::string& what) { throw violation(what); }

ho::choice placement(std::size_t n) {
  constexpr std::array all{ho::choice::offload,         ho::choice::save,
                           ho::choice::remat,           ho::choice::offload,
                           ho::choice::offload_or_save, ho::choice::offload_or_remat};
  return all.at(n % all.size());
}

bool says(const std::exception& error, const char* part) {
  return std::string(error.what()).find(part) != std::string::npos;
}

}  // namespace

// --- Values

float driver::base(std::size_t i) const {
  const item& x = items_[i];
  if (x.how == made::by_hand) return static_cast<float>(8 * (step_ * 64 + x.lives % 64) + static_cast<int>(i) * 4096);
  float sum = static_cast<float>(16 * (step_ + 1) + static_cast<int>(i));
  for (const std::size_t from : x.inputs) sum += base(from);
  return sum;
}

void driver::fill(cudaStream_t on, float* out, std::size_t n, float first) {
  ho::launch(on, n, [=](std::size_t i) { out[i] = first + static_cast<float>(i % 8); },
             {.name = "fill", .writes = {{out, n * sizeof *out}}});
}

void driver::combine(float* out, std::size_t n, float plus, const std::vector<std::span<const float>>& inputs) {
  if (inputs.empty()) {
    fill(compute_.get(), out, n, plus);
    return;
  }
  const std::span<const float> a = inputs.front();
  const std::span<const float> b = inputs.back();
  const float times = inputs.size() == 1 ? 0.0F : 1.0F;
  const auto of = [](std::span<const float> from, std::size_t i) {  // the base that element i was made from
    return from[i % from.size()] - static_cast<float>(i % from.size() % 8);
  };
  ho::launch(compute_.get(), n,
             [=](std::size_t i) { out[i] = plus + of(a, i) + times * of(b, i) + static_cast<float>(i % 8); },
             {.name = "combine",
              .reads = {{a.data(), a.size_bytes()}, {b.data(), b.size_bytes()}},
              .writes = {{out, n * sizeof *out}}});
}

void driver::look(const float* from, std::size_t n, cudaStream_t on, std::size_t i) {
  const auto values = std::make_shared<std::vector<float>>(n, -1.0F);
  ho::launch(on, n, [=](std::size_t at) { (*values)[at] = from[at]; },
             {.name = "look", .reads = {{from, n * sizeof *from}}});
  sights_.push_back({values, base(i), i});
}

void driver::may_throw() {
  if (throw_in_ != 0 && --throw_in_ == 0) throw trainer_error("trainer");
}

void driver::note(const std::string& what, std::size_t i, cudaStream_t on) {
  history_ += what + " " + std::to_string(i) + (on == other_.get() ? " on the other stream\n" : "\n");
}

// --- Set up

void driver::build() {
  const std::size_t count = 1 + in_.below(most_tensors);
  const std::size_t unit = 256 * (1 + in_.below(40));  // around a tensor's size
  window_ = in_.one_in(8) ? ho::unlimited : unit * (1 + in_.below(12));
  if (in_.one_in(6)) host_capacity_ = unit * (1 + in_.below(6));
  const bool overlap = !in_.one_in(6);
  scheduler_ends_first_ = in_.one_in(3);
  scheduler_.emplace(ho::scheduler_options{.compute = compute_.get(),
                                           .window = window_,
                                           .host_capacity = host_capacity_,
                                           .overlap = overlap,
                                           .sample_every = static_cast<unsigned>(in_.below(3)),
                                           .observer = {vg::slot_taken, vg::slot_given_back}});
  history_ += "window " + std::to_string(window_) + (overlap ? "\n" : ", no overlap\n");
  items_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    build_tensor(i, count);
    if (items_[i].how == made::by_hand) continue;
    for (std::size_t n = in_.below(3); n != 0; --n) {
      const std::size_t from = in_.below(std::max<std::size_t>(i, 1));
      if (from >= i || !defined(from)) continue;
      items_[i].inputs.push_back(from);
      items_[from].needed = true;
    }
  }
  for (std::size_t i = 0; i + 1 < count; ++i) {  // groups: i and i + 1, made from the inputs of i
    item& a = items_[i];
    item& b = items_[i + 1];
    const bool free = a.partner == i && a.how != made::by_hand && b.how != made::by_hand;
    if (!free || !in_.one_in(3)) continue;
    a.partner = i + 1;
    b.partner = i;
    b.how = a.how;
    b.inputs = a.inputs;
    a.needed = b.needed = true;
  }
  for (std::size_t i = 0; i < count; ++i) define(i);
}

/// An offloaded tensor that is built in a step has no pinned memory before the next one.
void driver::build_tensor(std::size_t i, std::size_t count, bool in_step) {
  item& x = items_[i];
  x = item{};
  x.partner = i;
  const std::size_t elements = 1 + in_.below(64) * (1 + in_.below(40));
  ho::choice chosen = placement(in_.below(6));
  if (in_step && chosen != ho::choice::remat) chosen = ho::choice::save;
  const std::size_t how = in_.below(4);
  x.how = how == 0 ? made::by_hand : (how == 1 ? made::by_function : made::by_coroutine);
  const ho::layer_position at{i, count};
  try {
    x.t = std::make_unique<tensor>(*scheduler_, elements, at, chosen);
  } catch (const ho::host_capacity_error& error) {
    if (chosen != ho::choice::offload || host_capacity_ == ho::unlimited) fail(error.what());
    chosen = ho::choice::save;
    x.t = std::make_unique<tensor>(*scheduler_, elements, at, chosen);
  }
  if (x.t->placed() == ho::choice::remat && x.how == made::by_hand) x.how = made::by_function;
}

void driver::define(std::size_t i) {
  item& x = items_[i];
  constexpr std::array ways{" by hand", " by a function", " by a coroutine"};
  constexpr std::array places{", saved", ", offloaded", ", made again"};
  history_ += "tensor " + std::to_string(i) + ": " + std::to_string(x.t->elements()) + " elements" +
              places.at(static_cast<std::size_t>(x.t->placed())) + ", made" + ways.at(static_cast<std::size_t>(x.how));
  for (const std::size_t from : x.inputs) history_ += " from " + std::to_string(from);
  history_ += x.partner == i ? "\n" : ", with " + std::to_string(x.partner) + "\n";
  if (x.how == made::by_hand || x.partner < i) return;
  if (x.partner != i) {
    const std::size_t j = x.partner;
    if (x.how == made::by_function) {
      const auto make = [this, i, j](std::span<float> a, std::span<float> b) {
        compute_by_hand(i, a);
        compute_by_hand(j, b);
      };
      ho::define_group(make, *x.t, *items_[j].t);
    } else {
      const auto make = [this, i, j](std::span<float> a, std::span<float> b) -> ho::task<> {
        co_await compute(i, a);
        co_await compute(j, b);
      };
      ho::define_group(make, *x.t, *items_[j].t);
    }
  } else if (x.how == made::by_function) {
    x.t->define([this, i](std::span<float> out) { compute_by_hand(i, out); });
  } else {
    x.t->define([this, i](std::span<float> out) { return compute(i, out); });
  }
}

void driver::compute_by_hand(std::size_t i, std::span<float> out) {
  may_throw();
  std::vector<reading> leases;
  std::vector<std::span<const float>> inputs;
  float from_inputs = 0;
  for (const std::size_t from : items_[i].inputs) {
    auto lease = items_[from].t->fetch(compute_.get());
    inputs.push_back(lease.span());
    leases.push_back(std::move(lease));
    from_inputs += base(from);
  }
  combine(out.data(), out.size(), base(i) - from_inputs, inputs);
  may_throw();
}

ho::task<> driver::compute(std::size_t i, std::span<float> out) {
  may_throw();
  std::vector<reading> leases;
  std::vector<std::span<const float>> inputs;
  float from_inputs = 0;
  for (const std::size_t from : items_[i].inputs) {
    auto lease = co_await *items_[from].t;
    inputs.push_back(lease.span());
    leases.push_back(std::move(lease));
    from_inputs += base(from);
  }
  combine(out.data(), out.size(), base(i) - from_inputs, inputs);
  may_throw();
}

// --- What the driver knows

/// Whether a read of i, alive or not, could meet a writable lease or a group of which one is at another point of its
/// life: then the library may refuse it.
bool driver::may_conflict(std::size_t i) const {
  const item& x = items_[i];
  if (x.written) return true;
  if (!defined(i)) return false;
  const item& partner = items_[x.partner];
  if (x.partner != i && (partner.written || partner.alive != x.alive)) return true;
  return std::any_of(x.inputs.begin(), x.inputs.end(), [&](std::size_t from) { return may_conflict(from); });
}

void driver::make_alive(std::size_t i) {
  if (items_[i].alive) return;
  for (const std::size_t from : items_[i].inputs) make_alive(from);
  for (const std::size_t one : {i, items_[i].partner}) {
    items_[one].alive = true;
    items_[one].dying = false;
  }
}

void driver::lease_ended(std::size_t i) {
  item& x = items_[i];
  if (--x.leases != 0) return;
  if (std::exchange(x.written, false)) x.alive = true;
  if (!std::exchange(x.dying, false)) return;
  x.alive = false;
  ++x.lives;
}

void driver::forget_lives() {
  for (item& x : items_) {
    x.alive = x.written = x.dying = false;
    x.leases = 0;
    x.lives = 0;
  }
}

// --- Straight-line steps

template <class Call>
void driver::must_be_refused(const Call& call, const std::string& what) {
  try {
    call();
  } catch (const ho::usage_error&) {
    return;
  }
  fail("not refused: " + what);
}

void driver::try_to_produce(std::size_t i) {
  item& x = items_[i];
  const cudaStream_t on = pick_stream();
  if (x.alive || x.written) {
    must_be_refused([&] { auto lease = x.t->produce(on); }, "produce of a tensor that is alive");
    return;
  }
  if (x.partner != i) return;
  note("produce", i, on);
  auto lease = x.t->produce(on);
  fill(on, lease.data(), lease.size(), base(i));
  x.written = true;
  x.leases = 1;
  leases_.push_back({i, std::nullopt, std::move(lease), on});
}

void driver::try_to_fetch(std::size_t i, bool last) {
  item& x = items_[i];
  const cudaStream_t on = pick_stream();
  const auto fetch = [&] { return last ? std::move(*x.t).fetch(on) : x.t->fetch(on); };
  if (x.written) {
    must_be_refused([&] { auto lease = fetch(); }, "fetch while a writable lease is held");
    return;
  }
  if (!x.alive && !defined(i)) {
    must_be_refused([&] { auto lease = fetch(); }, "fetch of a tensor without values");
    return;
  }
  note(last ? "fetch, last use," : "fetch", i, on);
  auto lease = fetch();
  make_alive(i);
  x.dying = x.dying || last;
  ++x.leases;
  look(lease.data(), lease.size(), on, i);
  leases_.push_back({i, std::move(lease), std::nullopt, on});
}

void driver::end_one() {
  if (leases_.empty()) return;
  const std::size_t at = in_.below(leases_.size());
  const std::size_t i = leases_[at].of;
  note("end", i, leases_[at].on);
  leases_.erase(leases_.begin() + static_cast<std::ptrdiff_t>(at));
  lease_ended(i);
}

/// False when the step is to end.
bool driver::straight_operation() {
  const std::size_t what = in_.below(17);
  if (what == 0) return false;
  may_throw();
  const std::size_t i = pick();
  const bool conflict = may_conflict(i);
  const bool simple = items_[i].alive ? items_[i].t->placed() != ho::choice::remat : !defined(i);
  try {
    if (what < 4) {
      try_to_produce(i);
    } else if (what < 8) {
      try_to_fetch(i, false);
    } else if (what < 11) {
      try_to_fetch(i, true);
    } else if (what < 14) {
      end_one();
    } else if (what == 14 && !leases_.empty()) {  // uses the memory once more
      held& one = leases_[in_.below(leases_.size())];
      note("use again", one.of, one.on);
      if (one.read) look(one.read->data(), one.read->size(), one.on, one.of);
      if (one.write) fill(one.on, one.write->data(), one.write->size(), base(one.of));
    } else if (what == 15) {
      replace(i, true);
    } else {
      const double seconds = 1e-6 * static_cast<double>(in_.below(100));
      ho::launch(pick_stream(), 1, [](std::size_t) {},
                 {.name = "busy", .bytes = seconds * vg::current_machine().hbm.value});
    }
  } catch (const ho::window_error&) {
    if (!simple) throw;  // some of what it was to be made from may have been made
  } catch (const ho::usage_error&) {
    if (!conflict) throw;
    throw trainer_error("refused");
  }
  return true;
}

bool driver::straight_step() {
  ho::step s(*scheduler_);
  while (!in_.over() && straight_operation()) {
  }
  if (!leases_.empty() && in_.one_in(4)) {
    const std::vector<held> void_leases = std::exchange(leases_, {});  // they end after the step
    must_be_refused([&] { s.end(); }, "the end of a step while a lease is held");
    return false;
  }
  while (!leases_.empty()) end_one();
  s.end();
  return true;
}

// --- Steps in coroutines

/// Like the straight-line step, but that a plain function cannot be suspended: what it asks for alone can be foreseen.
ho::task<> driver::one_coroutine() {
  std::vector<std::pair<std::size_t, reading>> leases;
  while (!in_.over()) {
    const std::size_t what = in_.below(12);
    if (what == 0) break;
    may_throw();
    const std::size_t i = pick();
    item& x = items_[i];
    if (what < 3 && !x.alive && !x.written && x.partner == i) {
      const cudaStream_t on = pick_stream();
      note("produce and end", i, on);
      auto lease = x.t->produce(on);
      fill(on, lease.data(), lease.size(), base(i));
      lease.end();
      x.alive = true;
    } else if (what < 9) {
      if (!x.alive && !defined(i)) continue;
      const bool last = in_.one_in(3);
      const cudaStream_t on = pick_stream();
      if (may_conflict(i)) continue;
      note(last ? "await, last use," : "await", i, on);
      if (last) {
        auto lease = co_await std::move(*x.t).on(on);
        look(lease.data(), lease.size(), on, i);
        leases.emplace_back(i, std::move(lease));
      } else {
        auto lease = co_await x.t->on(on);
        look(lease.data(), lease.size(), on, i);
        leases.emplace_back(i, std::move(lease));
      }
      make_alive(i);
      x.dying = x.dying || last;
      ++x.leases;
    } else if (!leases.empty()) {
      const auto at = leases.begin() + static_cast<std::ptrdiff_t>(in_.below(leases.size()));
      const std::size_t ended = at->first;
      note("end", ended, nullptr);
      leases.erase(at);
      lease_ended(ended);
    }
  }
}

/// Only defined tensors, whose values do not depend on who came first.
ho::task<> driver::one_of_several() {
  std::vector<reading> leases;
  for (std::size_t operations = 1 + in_.below(10); operations != 0; --operations) {
    may_throw();
    const std::size_t i = pick();
    if (!defined(i)) continue;
    const cudaStream_t on = pick_stream();
    const bool last = in_.one_in(3);
    note(last ? "await in one of several, last use," : "await in one of several", i, on);
    if (last) {
      auto lease = co_await std::move(*items_[i].t).on(on);
      look(lease.data(), lease.size(), on, i);
      leases.push_back(std::move(lease));
    } else {
      auto lease = co_await items_[i].t->on(on);
      look(lease.data(), lease.size(), on, i);
      leases.push_back(std::move(lease));
    }
    while (!leases.empty() && !in_.one_in(3)) {
      leases.erase(leases.begin() + static_cast<std::ptrdiff_t>(in_.below(leases.size())));
    }
  }
}

ho::task<> driver::several_coroutines() {
  std::vector<ho::task<>> tasks;
  for (std::size_t n = 1 + in_.below(3); n != 0; --n) tasks.push_back(one_of_several());
  co_await ho::when_all(std::move(tasks));
}

// --- The whole

/// Destroys a tensor, also in the middle of a life, and builds another one.
void driver::replace(std::size_t i, bool in_step) {
  if (items_[i].needed || items_[i].leases != 0) return;
  note("replace", i, nullptr);
  replaced_ = true;
  std::vector<std::size_t> inputs = items_[i].inputs;
  build_tensor(i, items_.size(), in_step);
  if (items_[i].how != made::by_hand) items_[i].inputs = std::move(inputs);
  define(i);
}

/// False where no more steps are possible.
bool driver::one_step() {
  throw_in_ = in_.one_in(4) ? 1 + in_.below(20) : 0;
  const std::size_t kind = in_.below(3);
  constexpr std::array kinds{"straight-line step", "step of one coroutine", "step of several coroutines"};
  note(kinds.at(kind), static_cast<std::size_t>(step_), nullptr);
  bool succeeded = true;
  try {
    if (kind == 0) {
      succeeded = straight_step();
    } else if (kind == 1) {
      scheduler_->run([this] { return one_coroutine(); });
    } else {
      scheduler_->run([this] { return several_coroutines(); });
    }
  } catch (const trainer_error& error) {
    succeeded = false;
    history_ += std::string("thrown: ") + error.what() + "\n";
  } catch (const ho::window_error& error) {
    succeeded = false;
    history_ += std::string(error.what()) + "\n";
    if (window_ == ho::unlimited || error.needed() <= error.window()) fail(error.what());
  } catch (const ho::host_capacity_error& error) {  // pieces of what was replaced do not serve other sizes
    if (host_capacity_ == ho::unlimited || !replaced_) fail(error.what());
    return false;
  } catch (const ho::usage_error& error) {
    succeeded = false;
    // What depends on which coroutine came first.
    const bool of_order = says(error, "of its group begins anew") || says(error, "while its group is needed") ||
                          says(error, "is being made by a coroutine: co_await it");
    if (kind != 2 || !of_order) fail(error.what());
  }
  throw_in_ = 0;
  leases_.clear();
  forget_lives();
  check_step(succeeded);
  return true;
}

void driver::check_step(bool succeeded) {
  if (in_.one_in(3)) return;  // the device goes on while the next step is enqueued
  check_sights();
  const ho::step_report r = scheduler_->report();
  if (window_ != ho::unlimited && r.window_peak_bytes > window_) fail("the window was exceeded");
  if (host_capacity_ != ho::unlimited && r.host_bytes > host_capacity_) fail("the host memory was exceeded");
  if (r.host_peak_bytes > r.host_bytes) fail("the host's peak is more than its memory");
  if (succeeded && r.step == 0) fail("no report");
}

void driver::check_sights() {
  if (cudaDeviceSynchronize() != cudaSuccess) fail("cudaDeviceSynchronize");
  for (const sight& s : sights_) {
    for (std::size_t i = 0; i < s.values->size(); ++i) {
      const float expected = s.base + static_cast<float>(i % 8);
      if ((*s.values)[i] == expected) continue;
      fail("tensor " + std::to_string(s.tensor) + ", element " + std::to_string(i) + " is " +
           std::to_string((*s.values)[i]) + ", not " + std::to_string(expected));
    }
  }
  sights_.clear();
}

void driver::run() {
  build();
  for (step_ = 0; !in_.over() && step_ < 40; ++step_) {
    if (!one_step()) break;
    if (in_.one_in(8)) replace(pick(), false);
  }
  if (scheduler_ends_first_) scheduler_.reset();  // its tensors and the work in flight stay
  check_sights();
}

void run(std::span<const std::uint8_t> bytes) {
  vg::reset(vg::gb200());
  vg::record_timeline(false);
  std::string history;
  const auto fail_with_history = [&](const std::string& what) { fail(what + "\nafter\n" + history); };
  {
    driver one(bytes);
    try {
      one.run();
    } catch (const std::exception& error) {
      history = one.history();
      fail_with_history(error.what());
    }
    history = one.history();
  }
  for (const vg::finding& f : vg::findings()) fail_with_history(f.message);
  for (const vg::finding& f : vg::leaks()) fail_with_history(f.message);
  if (cudaPeekAtLastError() != cudaSuccess) fail_with_history("an error of CUDA's is left behind");
}

}  // namespace library_driver
