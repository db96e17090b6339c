#include "library_driver.hpp"

#include "record_driver.hpp"

#include <hostoffload/schedule/record_file.hpp>

#include <algorithm>
#include <sstream>

namespace library_driver {

namespace {

constexpr std::size_t most_tensors = 7;

ho::choice placement(std::size_t n) {
  constexpr std::array all{ho::choice::offload,         ho::choice::save,
                           ho::choice::remat,           ho::choice::offload,
                           ho::choice::offload_or_save, ho::choice::offload_or_remat};
  return all.at(n % all.size());
}

/// Some have links on which it may be faster to make tensors again than to copy them.
vg::machine machine(std::size_t n) {
  vg::machine m = vg::gb200();
  constexpr std::array slower{1.0, 1e3, 30.0, 1e4};
  for (vg::sourced* const rate : {&m.link.to_device, &m.link.to_host, &m.link.both}) rate->value /= slower.at(n);
  return m;
}

}  // namespace

void fail(const std::string& what) { throw violation(what); }

// --- Values

float driver::base(std::size_t i) const {
  const item& x = items_[i];
  if (x.how == made::by_hand) return static_cast<float>(8 * (step_ * 64 + x.lives % 64) + static_cast<int>(i) * 4096);
  float sum = static_cast<float>(16 * (step_ + 1) + static_cast<int>(i));
  for (const std::size_t from : x.inputs) sum += base(from);
  return sum;
}

/// How many times what a launch is given is in each value.
float driver::inputs_of(std::size_t i) const {
  const item& x = items_[i];
  if (x.how == made::by_hand || x.inputs.empty()) return 1;
  float sum = 0;
  for (const std::size_t from : x.inputs) sum += inputs_of(from);
  return sum;
}

/// In a captured step with `inputs` times what each launch is given on top.
void driver::fill(cudaStream_t on, float* out, std::size_t n, float first, float inputs) {
  if (capturing_) {
    const auto* const input = static_cast<const float*>(input_->region().begin);
    ho::launch(on, n, [=](std::size_t i) { out[i] = first + inputs * *input + static_cast<float>(i % 8); },
               {.name = "fill", .reads = {{input, sizeof *input}}, .writes = {{out, n * sizeof *out}}});
    return;
  }
  ho::launch(on, n, [=](std::size_t i) { out[i] = first + static_cast<float>(i % 8); },
             {.name = "fill", .writes = {{out, n * sizeof *out}}});
}

void driver::combine(float* out, std::size_t n, float plus, const std::vector<std::span<const float>>& inputs) {
  if (inputs.empty()) {
    fill(compute_.get(), out, n, plus, 1);
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
  (capturing_ ? graph_sights_ : sights_).push_back({values, base(i), inputs_of(i), i});
}

void driver::may_throw() {
  if (throw_in_ != 0 && --throw_in_ == 0) throw trainer_error("trainer");
}

void driver::note(const std::string& what, std::size_t i, cudaStream_t on) {
  history_ += what + " " + std::to_string(i) + (on == other_.get() ? " on the other stream\n" : "\n");
}

// --- Set up

void driver::build() {
  const std::size_t unit = 256 * (1 + in_.below(40));  // around a tensor's size
  mostly_either_ = in_.one_in(3);
  if (mostly_either_) most_bytes_ = unit;
  const std::size_t count = 1 + (mostly_either_ ? most_tensors - 1 - in_.below(3) : in_.below(most_tensors));
  window_ = in_.one_in(8) ? ho::unlimited : unit * (mostly_either_ ? 3 + in_.below(5) : 1 + in_.below(12));
  if (in_.one_in(6)) host_capacity_ = unit * (1 + in_.below(6));
  const bool overlap = !in_.one_in(6);
  scheduler_ends_first_ = in_.one_in(3);
  plans_ = !in_.one_in(4);
  constexpr std::array thresholds{std::size_t{16384}, std::size_t{0}, std::size_t{1024}, ho::unlimited};
  const std::size_t batch_below = thresholds.at(in_.below(thresholds.size()));
  const ho::pinning pinned = in_.one_in(8) ? ho::pinning::registered : ho::pinning::allocated;
  input_.emplace(sizeof(float));
  scheduler_.emplace(ho::scheduler_options{.compute = compute_.get(),
                                           .window = window_,
                                           .host_capacity = host_capacity_,
                                           .host_pinning = {.how = pinned, .threads = 1},
                                           .overlap = overlap,
                                           .batch_copies_below = batch_below,
                                           .sample_every = static_cast<unsigned>((plans_ ? 1 : 0) + in_.below(3)),
                                           .plan = plans_,
                                           .observer = {vg::slot_taken, vg::slot_given_back}});
  history_ += "window " + std::to_string(window_) + (overlap ? "" : ", no overlap") + (plans_ ? ", plans\n" : "\n");
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
  const std::size_t elements =
      mostly_either_ ? most_bytes_ / sizeof(float) - in_.below(60) : 1 + in_.below(64) * (1 + in_.below(40));
  ho::choice chosen = placement(in_.below(6));
  if (mostly_either_ && !in_.one_in(4)) chosen = ho::choice::offload_or_remat;
  if (in_step && chosen != ho::choice::remat) chosen = ho::choice::save;
  x.wanted = chosen;
  const std::size_t how = mostly_either_ ? 1 + in_.below(2) : in_.below(4);
  x.how = how == 0 ? made::by_hand : (how == 1 ? made::by_function : made::by_coroutine);
  const ho::layer_position at{i, count};
  try {
    x.t = std::make_unique<tensor>(*scheduler_, elements, at, chosen);
  } catch (const ho::host_capacity_error& error) {
    if (chosen != ho::choice::offload || host_capacity_ == ho::unlimited) fail(error.what());
    x.wanted = ho::choice::save;
    x.t = std::make_unique<tensor>(*scheduler_, elements, at, x.wanted);
  }
  if (in_.one_in(4)) x.shrinks = 1 + in_.below(8);
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

/// All of `out`, or where the tensor shrinks as much as is kept.
void driver::make(std::size_t i, std::span<float> out, float plus, const std::vector<std::span<const float>>& inputs) {
  const item& x = items_[i];
  std::size_t n = out.size();
  if (x.shrinks != 0 && !capturing_) {
    n = std::min(n, smaller(i));
    x.t->resize(n);
    ++seen_.resized;
  }
  combine(out.data(), n, plus, inputs);
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
  make(i, out, base(i) - from_inputs, inputs);
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
  make(i, out, base(i) - from_inputs, inputs);
  may_throw();
}

// --- The whole

/// Destroys a tensor, also in the middle of a life, and builds another one.
void driver::replace(std::size_t i, bool in_step) {
  if (items_[i].needed || items_[i].leases != 0) return;
  note("replace", i, nullptr);
  replaced_ = true;
  must_be_stale_ = !capturing_;
  std::vector<std::size_t> inputs = items_[i].inputs;
  build_tensor(i, items_.size(), in_step);
  if (items_[i].how != made::by_hand) items_[i].inputs = std::move(inputs);
  define(i);
}

void driver::check_record() {
  const std::optional<ho::recorded_step> record = scheduler_->record();
  if (!record) return;
  ++seen_.records;
  std::ostringstream text;
  ho::write_record(text, *record);
  if (!record_driver::read_any(text.str())) fail("a record is refused:\n" + text.str());
}

void driver::check_sight(const sight& s, float input) {
  for (std::size_t i = 0; i < s.values->size(); ++i) {
    const float expected = s.base + s.inputs * input + static_cast<float>(i % 8);
    if ((*s.values)[i] == expected) continue;
    fail("tensor " + std::to_string(s.tensor) + ", element " + std::to_string(i) + " is " +
         std::to_string((*s.values)[i]) + ", not " + std::to_string(expected));
  }
}

void driver::check_sights() {
  if (cudaDeviceSynchronize() != cudaSuccess) fail("cudaDeviceSynchronize");
  for (const sight& s : sights_) check_sight(s, 0);
  sights_.clear();
  if (!launched_with_) return;
  for (const sight& s : graph_sights_) check_sight(s, *launched_with_);
  launched_with_.reset();
}

void driver::run() {
  build();
  while (!in_.over() && step_ < 120) {
    if (one_step() == ending::no_more) break;
    if (in_.one_in(8)) replace(pick(), false);
    if (graph_ && in_.one_in(3)) launch();
  }
  if (graph_ && in_.one_in(2)) {
    check_sights();
    graph_.reset();
  }
  if (scheduler_ends_first_) scheduler_.reset();  // its tensors and the work in flight stay
  check_sights();
}

tally& tally::operator+=(const tally& other) {
  planned += other.planned;
  departed += other.departed;
  launches += other.launches;
  stale += other.stale;
  resized += other.resized;
  records += other.records;
  fallen_back += other.fallen_back;
  chosen += other.chosen;
  return *this;
}

tally run(std::span<const std::uint8_t> bytes) {
  choices first(bytes);
  vg::reset(machine(first.below(4)));
  vg::record_timeline(false);
  std::string history;
  tally seen;
  const auto fail_with_history = [&](const std::string& what) { fail(what + "\nafter\n" + history); };
  {
    driver one(bytes.subspan(first.position()));
    try {
      one.run();
      seen = one.seen();
    } catch (const std::exception& error) {
      history = one.history();
      fail_with_history(error.what());
    }
    history = one.history();
  }
  for (const vg::finding& f : vg::findings()) fail_with_history(f.message);
  for (const vg::finding& f : vg::leaks()) fail_with_history(f.message);
  if (cudaPeekAtLastError() != cudaSuccess) fail_with_history("an error of CUDA's is left behind");
  return seen;
}

}  // namespace library_driver
