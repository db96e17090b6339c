#include "small_step.hpp"

#include <planner/moves.hpp>

#include <hostoffload/errors.hpp>

#include <algorithm>

namespace small {
namespace {

enum class name { tensor };
using tensor = ho::offload_tensor<std::byte, ho::any_placement<name::tensor>>;

std::size_t slot(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

class trainer {
public:
  trainer(const model& m, const planner::mix& placed, ho::prefetch_scheduler& scheduler)
      : m_(m), on_(scheduler.compute()) {
    for (std::size_t n = 0; n < m.may.size(); ++n) {
      for (std::size_t l = 0; l < m.layers; ++l) {
        tensors_.push_back(std::make_unique<tensor>(scheduler, m.bytes[m.at(n, l)], ho::layer_position{l, m.layers},
                                                    placed.at({n, l})));
      }
    }
    for (std::size_t l = 0; l < m.layers; ++l) define(l);
  }

  ho::task<> step() {
    for (std::size_t l = 0; l < m_.layers; ++l) {
      auto last = co_await of(m_.may.size() - 1, l);
    }
    work(m_.head_s);
    for (std::size_t l = m_.layers; l-- > 0;) {
      for (std::size_t n = m_.may.size(); n-- > 0;) {
        auto values = co_await std::move(of(n, l));
        work(m_.use_s[m_.at(n, l)]);
      }
    }
  }

private:
  tensor& of(std::size_t n, std::size_t l) { return *tensors_[m_.at(n, l)]; }
  void work(double seconds) const {
    const auto nothing = [](std::size_t) {};
    ho::launch(on_, 1, nothing, ho::work{.name = "work", .seconds = seconds});
  }

  void define(std::size_t l) {
    tensor* const below = l == 0 ? nullptr : &of(m_.may.size() - 1, l - 1);
    std::size_t n = 0;
    if (m_.grouped) {
      const double seconds = m_.make_s[m_.at(0, l)] + m_.make_s[m_.at(1, l)];
      const auto make = [this, below, seconds](std::span<std::byte>, std::span<std::byte>) {
        return made_from(below, seconds);
      };
      ho::define_group(make, of(0, l), of(1, l));
      n = 2;
    }
    for (; n < m_.may.size(); ++n) {
      tensor* const from = n == 0 ? below : &of(n - 1, l);
      const double seconds = m_.make_s[m_.at(n, l)];
      of(n, l).define([this, from, seconds](std::span<std::byte>) { return made_from(from, seconds); });
    }
  }
  ho::task<> made_from(tensor* from, double seconds) {
    if (from == nullptr) {
      work(seconds);
      co_return;
    }
    auto values = co_await *from;
    work(seconds);
  }

  const model& m_;
  cudaStream_t on_;
  std::vector<std::unique_ptr<tensor>> tensors_;
};

/// Room for what two neighbouring layers offload.
std::size_t window_of(const model& m, const planner::mix& placed) {
  std::size_t most = 0;
  std::size_t below = 0;
  for (std::size_t l = 0; l < m.layers; ++l) {
    std::size_t here = 0;
    for (std::size_t n = 0; n < m.may.size(); ++n) {
      if (placed.at({n, l}) == ho::choice::offload) here += slot(m.bytes[m.at(n, l)]);
    }
    most = std::max(most, here + below);
    below = here;
  }
  return most;
}

}  // namespace

model random_model(std::mt19937_64& random, std::size_t most) {
  const auto between = [&random](double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random);
  };
  const auto whole = [&random](std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random);
  };
  for (;;) {
    model m;
    m.layers = whole(2, 4);
    m.may.resize(whole(2, 3));
    for (planner::permitted_choices& may : m.may) {
      const std::size_t without = whole(0, 5);  // half of the names permit everything
      may = {without != 0, without != 1, without != 2};
    }
    m.grouped = whole(0, 1) == 1;
    const double link = 190e9;
    std::size_t all = 0;
    for (std::size_t i = 0; i < m.may.size() * m.layers; ++i) {
      m.bytes.push_back(whole(1, 64) << 20U);
      const double copy_s = static_cast<double>(m.bytes.back()) / link;
      m.make_s.push_back(copy_s * between(0.2, 3));
      m.use_s.push_back(copy_s * between(0.2, 3));
      all += m.bytes.back();
    }
    m.head_s = between(0, 1e-3);
    m.device_budget = static_cast<std::size_t>(static_cast<double>(all) * between(0.7, 1.4));
    m.host_budget = static_cast<std::size_t>(static_cast<double>(all) * between(0.2, 0.9));
    if (planner::count_mixes(problem_of(m), most) <= most) return m;
  }
}

planner::problem problem_of(const model& m) {
  planner::problem p;
  p.layers = m.layers;
  for (std::size_t n = 0; n < m.may.size(); ++n)
    p.names.push_back({std::string(1, static_cast<char>('a' + n)), m.may[n]});
  p.bytes = m.bytes;
  p.backward_s = m.head_s;
  for (std::size_t l = 0; l < m.layers; ++l) {
    for (std::size_t n = 0; n < m.may.size(); ++n) {
      const double seconds = m.make_s[m.at(n, l)];
      p.forward_s += seconds;
      p.backward_s += m.use_s[m.at(n, l)];
      if (m.grouped && n == 1) {
        p.makings.back().makes.push_back({n, l});
        p.makings.back().seconds += seconds;
      } else {
        p.makings.push_back({{{n, l}}, seconds});
      }
    }
  }
  p.lead_s = p.makings.front().seconds;
  p.tail_s = m.use_s[m.at(0, 0)];
  p.to_host = vgpu::gb200().link.to_host.value;
  p.to_device = vgpu::gb200().link.to_device.value;
  p.device_budget = m.device_budget;
  p.host_budget = m.host_budget;
  return p;
}

planner::evaluation step(const model& m, const planner::mix& placed) {
  vgpu::reset(vgpu::gb200(), 1, vgpu::mode::dry);
  vgpu::record_timeline(false);
  planner::evaluation seen;
  const ho::stream compute;
  const ho::event before(ho::event_use::timing);
  const ho::event after(ho::event_use::timing);
  try {
    ho::prefetch_scheduler scheduler({.compute = compute.get(), .window = window_of(m, placed), .sample_every = 0});
    trainer t(m, placed, scheduler);
    const auto whole = [&t] { return t.step(); };
    for (int i = 0; i < 2; ++i) scheduler.run(whole);
    ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    ho::event_ref(before).record(compute.get());
    scheduler.run(whole);
    ho::event_ref(after).record(compute.get());
    ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    seen.host_bytes = scheduler.report().host_bytes;
  } catch (const ho::window_error&) {
    return seen;  // a chain of recomputations that needs more than two layers at once
  }
  float milliseconds = 0;
  ho::check(cudaEventElapsedTime(&milliseconds, before.get(), after.get()), "cudaEventElapsedTime");
  seen.step_s = static_cast<double>(milliseconds) / 1e3;
  seen.device_peak = vgpu::memory_usage().device_peak;
  seen.fits = seen.device_peak <= m.device_budget && seen.host_bytes <= m.host_budget;
  return seen;
}

}  // namespace small
