#include "library_driver.hpp"

#include <algorithm>

namespace library_driver {

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

/// Elements that remain of one that shrinks, in this step.
std::size_t driver::smaller(std::size_t i) const {
  const std::size_t eighths = 1 + (static_cast<std::size_t>(step_) + items_[i].shrinks) % 8;
  return std::max<std::size_t>(1, items_[i].t->elements() * eighths / 8);
}

/// Elements that it has when its life begins.
std::size_t driver::room_of(std::size_t i) const {
  return items_[i].asked != 0 ? items_[i].asked : items_[i].t->elements();
}

/// Not what its define function makes smaller: to make it again would be to another size.
bool driver::may_be_produced(std::size_t i) const {
  const item& x = items_[i];
  return !x.alive && !x.written && x.partner == i && (!defined(i) || x.shrinks == 0);
}

void driver::check_size(std::size_t i, std::size_t elements) {
  const item& x = items_[i];
  std::size_t expected = x.size;
  if (expected == 0) {
    expected = room_of(i);
    if (defined(i) && x.shrinks != 0 && !capturing_) expected = std::min(expected, smaller(i));
  }
  items_[i].size = expected;
  if (elements != expected)
    fail("a lease on tensor " + std::to_string(i) + " has " + std::to_string(elements) + " elements, not " +
         std::to_string(expected));
}

void driver::lease_ended(std::size_t i) {
  item& x = items_[i];
  if (--x.leases != 0) return;
  if (std::exchange(x.written, false)) x.alive = true;
  if (!std::exchange(x.dying, false)) return;
  x.alive = false;
  x.asked = x.size = 0;
  ++x.lives;
}

void driver::forget_lives() {
  for (item& x : items_) {
    x.alive = x.written = x.dying = false;
    x.leases = 0;
    x.lives = 0;
    x.asked = x.size = 0;
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
  if (!may_be_produced(i)) return;
  note("produce", i, on);
  auto lease = x.t->produce(on);
  x.size = room_of(i);
  if (lease.size() != x.size) fail("produced in another size");
  fill(on, lease.data(), lease.size(), base(i), inputs_of(i));
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
  check_size(i, lease.size());
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

void driver::try_to_resize(std::size_t i) {
  item& x = items_[i];
  const std::size_t n = std::max<std::size_t>(1, x.t->elements() * (1 + in_.below(8)) / 8);
  const bool has_room = x.alive || x.written;
  const std::size_t now = !has_room ? room_of(i) : (x.size != 0 ? x.size : n);
  const bool shrinks_in_use = x.written && n <= now;
  if (n != now && ((has_room && !shrinks_in_use) || (capturing_ && n != x.t->elements()))) {
    must_be_refused([&] { x.t->resize(n); }, "another size for a tensor that has its room, or in a capture");
    return;
  }
  if (has_room && x.size == 0) return;  // made as an input: of a size that nobody has looked at
  note("resize to " + std::to_string(n) + " elements", i, nullptr);
  x.t->resize(n);
  ++seen_.resized;
  (has_room ? x.size : x.asked) = n;
}

void driver::be_busy(cudaStream_t on) {
  const double seconds = 1e-6 * static_cast<double>(in_.below(100));
  // A stream that no lease has brought into a capture is not part of it, nor joined at its end.
  ho::launch(capturing_ ? compute_.get() : on, 1, [](std::size_t) {},
             {.name = "busy", .bytes = seconds * vg::current_machine().hbm.value});
}

/// Something done with tensor i, and what may come of it.
template <class Call>
void driver::attempt(std::size_t i, const Call& call) {
  may_throw();
  const bool conflict = may_conflict(i);
  const bool simple = items_[i].alive ? items_[i].t->placed() != ho::choice::remat : !defined(i);
  try {
    call();
  } catch (const ho::window_error&) {
    if (!simple) throw;  // some of what it was to be made from may have been made
  } catch (const ho::usage_error&) {
    if (!conflict) throw;
    throw trainer_error("refused");
  }
}

/// False when the step is to end.
bool driver::straight_operation() {
  const std::size_t what = in_.below(18);
  if (what == 0) return false;
  const std::size_t i = pick();
  attempt(i, [&] {
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
      if (one.write) fill(one.on, one.write->data(), one.write->size(), base(one.of), inputs_of(one.of));
    } else if (what == 15) {
      replace(i, true);
    } else if (what == 16) {
      try_to_resize(i);
    } else {
      be_busy(pick_stream());
    }
  });
  return true;
}

void driver::straight() {
  while (!in_.over() && straight_operation()) {
  }
  end_straight();
}

void driver::end_straight() {
  leases_are_left_ = !leases_.empty() && in_.one_in(4);
  while (!leases_.empty() && !leases_are_left_) end_one();
}

/// Forward in the order of making, backward in the reverse one, as most trainers do; some tensors are left out.
void driver::straight_trainer() {
  const bool far = in_.one_in(2);  // kernels that hide copies
  const auto work = [&] {
    if (far) be_busy(compute_.get());
    while (!leases_.empty() && !in_.one_in(6)) end_one();
  };
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (in_.one_in(8)) continue;
    if (in_.one_in(10)) attempt(i, [&] { try_to_resize(i); });
    attempt(i, [&] { defined(i) ? try_to_fetch(i, false) : try_to_produce(i); });
    work();
  }
  for (std::size_t i = items_.size(); i-- > 0;) {
    const bool last = !in_.one_in(6);
    if (items_[i].alive && !items_[i].dying) attempt(i, [&] { try_to_fetch(i, last); });
    work();
  }
  end_straight();
}

// --- Steps in coroutines

ho::task<> driver::coroutine(kind k) {
  switch (k) {
    case kind::one_coroutine:
      return one_coroutine();
    case kind::trainer_coroutine:
      return trainer_coroutine();
    default:
      return several_coroutines();
  }
}

ho::task<> driver::trainer_coroutine() {
  const bool far = in_.one_in(2);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (in_.one_in(8) || may_conflict(i) || items_[i].alive) continue;
    may_throw();
    note("make", i, nullptr);
    if (defined(i)) {
      auto lease = co_await *items_[i].t;
      check_size(i, lease.size());
      look(lease.data(), lease.size(), compute_.get(), i);
    } else {
      auto lease = items_[i].t->produce(compute_.get());
      fill(compute_.get(), lease.data(), lease.size(), base(i), inputs_of(i));
    }
    make_alive(i);
    if (far) be_busy(compute_.get());
  }
  for (std::size_t i = items_.size(); i-- > 0;) {
    if (!items_[i].alive || in_.one_in(8) || may_conflict(i)) continue;
    may_throw();
    note("await, last use,", i, nullptr);
    auto lease = co_await std::move(*items_[i].t);
    check_size(i, lease.size());
    look(lease.data(), lease.size(), compute_.get(), i);
    lease.end();
    items_[i].dying = true;
    items_[i].leases = 1;
    lease_ended(i);
    if (far) be_busy(compute_.get());
  }
}

/// Like the straight-line step, but that a plain function cannot be suspended: what it asks for alone can be foreseen.
ho::task<> driver::one_coroutine() {
  std::vector<std::pair<std::size_t, reading>> leases;
  while (!in_.over()) {
    const std::size_t what = in_.below(12);
    if (what == 0) break;
    may_throw();
    const std::size_t i = pick();
    item& x = items_[i];
    if (what < 3 && may_be_produced(i)) {
      const cudaStream_t on = pick_stream();
      note("produce and end", i, on);
      auto lease = x.t->produce(on);
      fill(on, lease.data(), lease.size(), base(i), inputs_of(i));
      lease.end();
      x.alive = true;
      x.size = room_of(i);
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

}  // namespace library_driver
