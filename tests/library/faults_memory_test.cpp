// Faults that make a step slow or lose memory, and errors that must not be lost.

#include "faults.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

using namespace ho::literals;
using namespace faults;

TEST_CASE("copies run on the copy engines at the rate of pinned memory, and launch no kernel") {
  gpu device(vg::h200());
  constexpr std::size_t large = 8U << 20U;  // 32 MiB: the latency is below a percent
  ho::prefetch_scheduler scheduler({.window = large * sizeof(float), .observer = watched});
  const auto a = offloaded(scheduler, large);
  const auto b = offloaded(scheduler, large);
  one_step(scheduler, *a, *b);
  const vg::machine m = vg::current_machine();
  const auto out = copies(to_host);
  const auto in = copies(to_device);
  REQUIRE((out.size() == 2 && in.size() == 2));
  for (const vg::operation& o : out) {
    CHECK(o.uses == vg::resource::copy_engine_to_host);
    CHECK(o.bytes / (o.end - o.start) > 0.95 * m.link.to_host.value);
  }
  for (const vg::operation& o : in) {
    CHECK(o.uses == vg::resource::copy_engine_to_device);
    CHECK(o.bytes / (o.end - o.start) > 0.95 * m.link.to_device.value);
  }
  for (const vg::operation& o : copies(vg::operation_kind::kernel)) CHECK((o.name == "fill" || o.name == "look"));
}

TEST_CASE("a copy in that is needed now does not stand behind a queue of copies out") {
  gpu device;
  vg::delay(to_host, 1e-3);
  ho::prefetch_scheduler scheduler({.window = 4 * slot, .observer = watched});
  std::vector<std::unique_ptr<x_tensor>> tensors;
  for (int i = 0; i < 5; ++i) tensors.push_back(offloaded(scheduler));
  for (int step = 0; step < 3; ++step) {  // when it is known what is in use at one time, slots are taken by age
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    vg::clear_timeline();
    ho::step s(scheduler);
    for (const auto& t : tensors) produce(*t, 1);
    { auto in = std::move(*tensors[0]).fetch(nullptr); }
    s.end();
  }
  const auto out = copies(to_host);
  const auto in = copies(to_device);
  REQUIRE((out.size() == 5 && !in.empty()));
  CHECK(in[0].stream != out[0].stream);
  CHECK(in[0].end < out[3].start);  // it takes the place of the second tensor, and waits for nothing else
}

TEST_CASE("more in use at one time than in any step before: what is to be left free does not wrap around") {
  gpu device;
  vg::delay(to_host, 1e-3);
  ho::prefetch_scheduler scheduler({.window = 4 * slot, .observer = watched});
  std::vector<std::unique_ptr<x_tensor>> tensors;
  for (int i = 0; i < 5; ++i) tensors.push_back(offloaded(scheduler));
  for (int step = 0; step < 4; ++step) {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    vg::clear_timeline();
    ho::step s(scheduler);
    for (const auto& t : tensors) produce(*t, 1);
    std::optional<ho::lease<const float>> held;
    if (step == 3) held.emplace(tensors[2]->fetch(nullptr));  // divides the window
    { auto in = std::move(*tensors[0]).fetch(nullptr); }
    held.reset();
    s.end();
  }
  const auto out = copies(to_host);
  const auto in = copies(to_device);
  REQUIRE((out.size() == 5 && !in.empty()));
  CHECK(in[0].end < out[3].start);  // still in the place of the oldest
}

TEST_CASE("pinned memory is what the tensors need, to 256 bytes each") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 64_KiB, .observer = watched});
  std::vector<std::unique_ptr<x_tensor>> tensors;
  std::size_t expected = 0;
  for (const std::size_t elements : {1U, 65U, 1100U, 2100U, 4200U}) {  // a little above powers of two
    tensors.push_back(offloaded(scheduler, elements));
    expected += (elements * sizeof(float) + 255) / 256 * 256;
  }
  ho::step s(scheduler);
  s.end();
  CHECK(vg::memory_usage().pinned_bytes == expected);
}

TEST_CASE("device memory goes back at the last use, not at the end of the step") {
  gpu device;
  const ho::choice placed = GENERATE(ho::choice::save, ho::choice::offload);
  ho::prefetch_scheduler scheduler({.window = 3 * slot, .observer = watched});
  std::vector<std::unique_ptr<x_tensor>> tensors;
  for (std::size_t i = 0; i < 3; ++i) {
    tensors.push_back(std::make_unique<x_tensor>(scheduler, n, ho::layer_position{i, 3}, placed));
  }
  y_tensor gradient(scheduler, n, {}, ho::choice::save);
  for (int step = 0; step < 3; ++step) {
    ho::step s(scheduler);
    for (const auto& t : tensors) produce(*t, 1);
    std::set<const void*> places;
    for (const auto& t : tensors) places.insert(t->fetch(nullptr).data());
    REQUIRE(places.size() == 3);
    for (const auto& t : tensors) {
      { auto in = std::move(*t).fetch(nullptr); }
      produce(gradient, 2);
      auto in = std::move(gradient).fetch(nullptr);
      if (placed == ho::choice::save) CHECK(places.count(in.data()) == 1);
    }
    s.end();
  }
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(scheduler.report().device_peak_bytes == 3 * slot);
  CHECK(scheduler.report().copies_in == 0);
}

TEST_CASE("coroutines that each hold a slot while they wait, and then need another, all end") {
  gpu device;
  const std::size_t slots = GENERATE(2U, 3U, 4U, 5U, 6U, 16U);
  constexpr std::size_t branches = 3;
  ho::prefetch_scheduler scheduler({.window = slots * slot, .observer = watched});
  std::vector<std::unique_ptr<x_tensor>> first, second;
  std::vector<std::unique_ptr<ho::host_values<float>>> read;
  for (std::size_t i = 0; i < branches; ++i) {
    for (auto* tensors : {&first, &second}) {
      tensors->push_back(offloaded(scheduler));
      const auto from = static_cast<float>(100 * i + 10 * (tensors == &first ? 0 : 1));
      tensors->back()->define([from](std::span<float> out) { fill(nullptr, out.data(), out.size(), from); });
    }
    read.push_back(std::make_unique<ho::host_values<float>>(scheduler, 1));
  }
  for (int step = 0; step < 4; ++step) {
    std::vector<std::unique_ptr<seen>> all(branches);
    const auto use = [&](std::size_t i) -> ho::task<> {
      auto a = co_await std::move(*first[i]);
      auto value = co_await read[i]->read(a.data(), 1, nullptr);  // the others go on
      CHECK(value[0] == static_cast<float>(100 * i));
      auto b = co_await std::move(*second[i]);
      all[i] = std::make_unique<seen>(nullptr, b.data(), n);
    };
    const auto train = [&]() -> ho::task<> { co_await ho::when_all(use(0), use(1), use(2)); };
    scheduler.run(train);
    for (std::size_t i = 0; i < branches; ++i) CHECK(all[i]->is(static_cast<float>(100 * i + 10)));
    CHECK(scheduler.report().window_peak_bytes <= slots * slot);
    CHECK(scheduler.report().least_window_bytes == 2 * slot);
  }
}

TEST_CASE("a call that fails while a tensor leaves or returns loses no slot") {
  for (std::uint64_t nth = 1;; ++nth) {
    INFO("call " << nth << " of the step");
    gpu device;
    ho::prefetch_scheduler scheduler({.window = 2 * slot, .host_capacity = 4 * slot, .observer = watched});
    const auto a = offloaded(scheduler);
    const auto b = offloaded(scheduler);
    const auto c = offloaded(scheduler);
    const auto made = offloaded(scheduler);
    made->define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 7); });
    const auto tight_step = [&] {
      ho::step s(scheduler);
      produce(*a, 1);
      produce(*b, 2);
      produce(*c, 3);  // waits for a copy out
      seen from_made(n);
      {
        auto in = std::move(*made).fetch(nullptr);
        from_made.look(nullptr, in.data());
      }
      auto in_a = std::move(*a).fetch(nullptr);  // a and b have the whole window
      auto in_b = std::move(*b).fetch(nullptr);
      seen from_a(nullptr, in_a.data(), n);
      seen from_b(nullptr, in_b.data(), n);
      in_a.end();
      in_b.end();
      s.end();
      return std::array<seen, 3>{std::move(from_a), std::move(from_b), std::move(from_made)};
    };
    tight_step();  // allocates; from now on slots have users to wait for
    vg::fail_call(nth, cudaErrorMemoryAllocation);
    bool failed = false;
    try {
      tight_step();
    } catch (const ho::cuda_error& e) {
      failed = true;
      CHECK(e.code() == cudaErrorMemoryAllocation);
    }
    const bool reached = vg::failed_call().has_value();
    vg::clear_faults();
    if (!reached) break;
    REQUIRE(failed);
    // A kernel that could not be launched left its lease's memory unwritten, and so it was copied out.
    for (const vg::finding& f : vg::findings()) CHECK(f.kind == vg::finding_kind::uninitialised_read);
    vg::clear_findings();
    const auto values = tight_step();
    CHECK((values[0].is(1) && values[1].is(2) && values[2].is(7)));
    CHECK(scheduler.report().host_peak_bytes == 4 * slot);
    CHECK(vg::memory_usage().pinned_bytes == 4 * slot);
    CHECK(vg::memory_usage().device_bytes == 2 * slot);
  }
}

TEST_CASE("an event that cannot be recorded: what was to be behind it is behind a later one", "[virtual]") {
  const bool goes_on = GENERATE(false, true);  // the trainer asks once more, or the step is abandoned
  const bool launches = GENERATE(false, true);
  CAPTURE(goes_on, launches);
  for (std::uint64_t nth = 1;; ++nth) {
    INFO("record " << nth << " of the step");
    gpu device;
    const ho::stream compute;
    const ho::stream other;
    ho::prefetch_scheduler scheduler(
        {.compute = compute.get(), .window = 3 * slot, .sample_every = 0, .observer = watched});
    const auto a = offloaded(scheduler);
    const auto b = offloaded(scheduler);
    std::vector<std::unique_ptr<seen>> all;
    const auto persistent = [&](auto&& leased) {
      try {
        return leased();
      } catch (const ho::cuda_error&) {
        if (!goes_on) throw;
        return leased();
      }
    };
    const auto lines = [&] {
      for (auto* t : {a.get(), b.get()}) {
        auto out = persistent([&] { return t->produce(compute.get()); });
        fill(compute.get(), out.data(), n, 1);
      }
      const auto look = [&](x_tensor& t, cudaStream_t on, bool last) {
        auto in = persistent([&] { return last ? std::move(t).fetch(on) : t.fetch(on); });
        all.push_back(std::make_unique<seen>(on, in.data(), n));
      };
      look(*b, other.get(), false);
      look(*b, compute.get(), true);
      look(*a, compute.get(), true);
    };
    const auto run = [&] {
      ho::step s(scheduler);
      lines();
      s.end();
    };
    run();
    run();
    ho::step_graph graph = scheduler.capture(lines);
    std::vector<std::unique_ptr<seen>> captured(std::make_move_iterator(all.end() - 3),
                                                std::make_move_iterator(all.end()));
    all.resize(all.size() - captured.size());
    run();
    vg::fail_call(nth, cudaErrorMemoryAllocation, "cudaEventRecord");
    const std::size_t before = all.size();
    try {
      run();
    } catch (const ho::error&) {
      all.resize(before);
    }
    const bool reached = vg::failed_call().has_value();
    vg::clear_faults();
    if (launches) graph.launch();
    run();
    for (const auto& one : all) CHECK(one->is(1));
    if (!reached) break;
    CHECK(nth < 100);
  }
}

TEST_CASE("an event that cannot be created: a graph launched next is behind the copy that it was for", "[virtual]") {
  for (std::uint64_t nth = 1;; ++nth) {
    INFO("event " << nth);
    gpu device;
    const ho::stream compute;
    ho::prefetch_scheduler scheduler(
        {.compute = compute.get(), .window = 2 * slot, .sample_every = 0, .observer = watched});
    const std::array all{offloaded(scheduler), offloaded(scheduler), offloaded(scheduler)};
    const auto lines = [&] {
      for (const auto& t : all) {
        auto out = t->produce(compute.get());
        fill(compute.get(), out.data(), n, 1);
      }
      for (std::size_t i = 3; i-- > 0;) auto in = std::move(*all.at(i)).fetch(compute.get());
    };
    vg::fail_call(nth, cudaErrorMemoryAllocation, "cudaEventCreateWithFlags");
    try {
      ho::step s(scheduler);
      lines();
      s.end();
    } catch (const ho::cuda_error& e) {
      CHECK(e.call() == "cudaEventCreateWithFlags");
    }
    const bool reached = vg::failed_call().has_value();
    vg::clear_faults();
    ho::step_graph graph = scheduler.capture(lines);
    graph.launch();
    if (!reached) {
      CHECK(nth > 8);
      break;
    }
  }
}

TEST_CASE("a copy in whose event cannot be recorded has read the host memory: the next copy out waits for it",
          "[virtual]") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4 * slot, .sample_every = 0, .observer = watched});
  const auto a = offloaded(scheduler);
  const auto whole = offloaded(scheduler, 4 * n);
  const auto other = offloaded(scheduler);
  ho::step first(scheduler);
  produce(*a, 1);
  try {
    auto out = whole->produce(nullptr);  // a is on the host alone
    throw std::runtime_error("trainer");
  } catch (const std::runtime_error&) {
  }
  produce(*other, 1);  // where a was: it comes back to another place, which nobody uses afterwards
  vg::fail_call(1, cudaErrorMemoryAllocation, "cudaEventRecord");
  CHECK_THROWS_WITH(a->fetch(nullptr), has_text("cudaEventRecord for tensor x[0] on stream copy in"));
  first.end();
  ho::step second(scheduler);
  produce(*a, 2);
  second.end();
  const auto in = copies(to_device);
  const auto out = copies(to_host);
  REQUIRE((in.size() == 1 && out.size() == 3));
  CHECK(in.front().to != out.back().from);
  CHECK(in.front().from == out.back().to);
}

namespace {

/// Steps of a trainer that asks once more where a request fails, and goes on.
class persistent {
public:
  explicit persistent(bool made) : made_(made) {
    if (!made) return;
    third_->define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 3); });
  }
  void step() {
    try {
      ho::step s(scheduler_);
      for (const auto& t : {first_.get(), second_.get()}) {
        auto out = again([&] { return t->produce(nullptr); });
        fill(nullptr, out.data(), n, 1);
      }
      if (made_) auto in = again([&] { return third_->fetch(nullptr); });
      for (const auto& t : {second_.get(), first_.get()}) {
        auto in = again([&] { return std::move(*t).fetch(nullptr); });
        read_.emplace_back(nullptr, in.data(), n);
      }
      if (made_) auto in = again([&] { return std::move(*third_).fetch(nullptr); });
      s.end();
    } catch (const ho::cuda_error&) {  // at the step's own end
    }
  }
  /// Calls of a step that is repeated; none where it is not.
  std::uint64_t calls_of_repeated_step() {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    read_.clear();
    const std::uint64_t before = vg::calls_until_now();
    step();
    const std::uint64_t calls = vg::calls_until_now() - before;
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    for (const seen& values : read_) CHECK(values.is(1));
    return scheduler_.report().repeated ? calls : 0;
  }

private:
  template <class Ask>
  std::invoke_result_t<Ask> again(Ask&& ask) {
    try {
      return ask();
    } catch (const ho::cuda_error&) {
      return ask();
    }
  }

  bool made_;
  ho::prefetch_scheduler scheduler_{{.window = 2 * slot, .sample_every = 0, .observer = watched}};
  std::unique_ptr<x_tensor> first_ = offloaded(scheduler_);
  std::unique_ptr<x_tensor> second_ = offloaded(scheduler_);
  std::unique_ptr<x_tensor> third_ = offloaded(scheduler_);
  std::vector<seen> read_;
};

}  // namespace

TEST_CASE("a step that went on after a request had failed is not repeated with what that led to", "[virtual]") {
  const bool made = GENERATE(false, true);
  int written_last = 0;  // of the steps before the first that is repeated
  std::uint64_t calls = 0;
  {
    const gpu device;
    persistent t(made);
    while (calls == 0) {
      REQUIRE(++written_last < 20);
      calls = t.calls_of_repeated_step();
    }
    --written_last;
  }
  for (std::uint64_t nth = 1;; ++nth) {
    INFO("call " << nth);
    const gpu device;
    persistent t(made);
    for (int step = 1; step < written_last; ++step) static_cast<void>(t.calls_of_repeated_step());
    vg::fail_call(nth, cudaErrorMemoryAllocation);
    t.step();
    const bool reached = vg::failed_call().has_value();
    vg::clear_faults();
    std::uint64_t since = 0;
    for (int step = 0; step < 20 && since == 0; ++step) since = t.calls_of_repeated_step();
    CHECK(since == calls);
    if (!reached) break;
  }
}

TEST_CASE("a call that fails where one of several coroutines asks what a step alone did is told as that call",
          "[virtual]") {
  bool reached = true;
  for (std::uint64_t nth = 1; reached; ++nth) {
    INFO("call " << nth);
    const gpu device;
    const ho::stream compute;
    ho::prefetch_scheduler scheduler(
        {.compute = compute.get(), .window = 6 * slot, .sample_every = 0, .observer = watched});
    const std::array all{offloaded(scheduler), offloaded(scheduler), offloaded(scheduler), offloaded(scheduler)};
    for (const auto& t : all) t->define([&](std::span<float> out) { fill(compute.get(), out.data(), out.size(), 1); });
    std::vector<std::unique_ptr<seen>> read;
    const auto uses = [&](std::size_t from, std::size_t to) -> ho::task<> {
      for (std::size_t i = from; i < to; ++i) auto in = co_await *all.at(i);
      for (std::size_t i = to; i-- > from;) {
        auto in = co_await std::move(*all.at(i));
        read.push_back(std::make_unique<seen>(compute.get(), in.data(), n));
      }
    };
    const auto alone = [&] { return uses(0, all.size()); };
    const auto several = [&]() -> ho::task<> { co_await ho::when_all(uses(0, 2), uses(2, 4)); };
    for (int step = 0; step < 4; ++step) scheduler.run(several);
    for (int step = 0; step < 12; ++step) scheduler.run(alone);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(scheduler.report().repeated);
    vg::fail_call(nth, cudaErrorMemoryAllocation);
    const std::size_t before = read.size();
    try {
      scheduler.run(several);
    } catch (const ho::cuda_error& e) {
      CHECK(e.call() == vg::failed_call()->function);
      read.resize(before);
    }
    reached = vg::failed_call().has_value();
    vg::clear_faults();
    scheduler.run(several);
    scheduler.run(alone);
    for (const auto& values : read) CHECK(values->is(1));
  }
}

TEST_CASE("a copy out that fails when a group was made leaves all of the group with values", "[virtual]") {
  const std::size_t batch_below = GENERATE(std::size_t{0}, 1_MiB);
  bool reached = true;
  for (std::uint64_t nth = 1; reached; ++nth) {
    INFO("call " << nth << ", batches below " << batch_below);
    const gpu device;
    ho::prefetch_scheduler scheduler(
        {.window = 4 * slot, .batch_copies_below = batch_below, .sample_every = 0, .observer = watched});
    const auto first = offloaded(scheduler);
    const auto second = offloaded(scheduler);
    ho::define_group(
        [](std::span<float> a, std::span<float> b) {
          fill(nullptr, a.data(), a.size(), 1);
          fill(nullptr, b.data(), b.size(), 2);
        },
        *first, *second);
    ho::step s(scheduler);
    vg::fail_call(nth, cudaErrorMemoryAllocation);
    try {
      auto in = first->fetch(nullptr);
    } catch (const ho::cuda_error&) {
    }
    reached = vg::failed_call().has_value();
    vg::clear_faults();
    std::vector<std::unique_ptr<seen>> read;
    try {
      for (const auto& t : {first.get(), second.get()}) {
        auto in = t->fetch(nullptr);
        read.push_back(std::make_unique<seen>(nullptr, in.data(), n));
      }
      s.end();
      CHECK((read.at(0)->is(1) && read.at(1)->is(2)));
    } catch (const ho::cuda_error&) {  // kept from the end of the lease
      CHECK(reached);
    }
  }
}

TEST_CASE("an event of one device on a stream of another: the error is raised") {
  gpu device(vg::gb200(), 2);
  ho::prefetch_scheduler scheduler({.window = slot, .observer = watched});
  const auto a = offloaded(scheduler);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);  // events are made on the current device
  try {
    ho::step s(scheduler);
    produce(*a, 1);
    s.end();
    FAIL("no error");
  } catch (const ho::cuda_error& e) {
    CHECK(e.code() == cudaErrorInvalidResourceHandle);
    CHECK(e.call() == "cudaEventRecord");
  }
  CHECK_FALSE(vg::findings().empty());
  vg::clear_findings();
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("a device that is lost while a lease on a second stream is held: the end is quiet") {
  vg::reset(vg::gb200());
  {
    const ho::stream other;
    ho::prefetch_scheduler scheduler({.window = slot, .observer = watched});
    const auto t = offloaded(scheduler);
    const auto train = [&]() -> ho::task<> {
      produce(*t, 1);
      auto in = co_await t->on(other.get());
      vg::fail_call(1, cudaErrorIllegalAddress);
      throw std::runtime_error("trainer");
    };
    CHECK_THROWS_WITH(scheduler.run(train), "trainer");
    CHECK(vg::failed_call());
    CHECK_THROWS_WITH(scheduler.run(train), has_text("cudaErrorIllegalAddress"));
  }
  CHECK(vg::leaks().empty());
  CHECK(gpu::text_of(vg::findings()).empty());
}

TEST_CASE("a wait for host values that fails reaches the await, and the step goes on") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 64_KiB, .observer = watched});
  ho::host_values<float> value(scheduler, 1);
  const auto t = offloaded(scheduler);
  t->define([](std::span<float> out) { fill(nullptr, out.data(), out.size(), 300); });
  std::string error;
  float read = 0;
  const auto train = [&]() -> ho::task<> {
    auto in = co_await *t;
    try {
      auto values = co_await value.read(in.data(), 1, nullptr);
      read = values[0];
    } catch (const ho::cuda_error& e) {
      error = e.what();
    }
  };
  vg::fail_call(1, cudaErrorMemoryAllocation, "cudaEventSynchronize");
  scheduler.run(train);
  CHECK_THAT(error, has_text("cudaEventSynchronize on stream compute: cudaErrorMemoryAllocation"));
  CHECK(read == 0);
  error.clear();
  scheduler.run(train);
  CHECK(error.empty());
  CHECK(read == 300);
}

TEST_CASE("a report that cannot be asked for is an error, and the next one is right") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = slot, .observer = watched});
  { const ho::step s(scheduler); }
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  vg::fail_call(1, cudaErrorInvalidValue, "cudaEventQuery");
  CHECK_THROWS_WITH(scheduler.report(), has_text("cudaEventQuery: cudaErrorInvalidValue"));
  CHECK(scheduler.report().step == 1);
}
