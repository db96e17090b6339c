#include "recorded_trainer.hpp"

#include <hostoffload/launch.hpp>

#include <cstddef>
#include <utility>

namespace planner {

recorded_trainer::recorded_trainer(const step_program& program, const std::vector<ho::choice>& placed,
                                   ho::prefetch_scheduler& scheduler)
    : program_(program), scheduler_(scheduler) {
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const program_tensor& t = program.tensors[i];
    tensors_.push_back(
        std::make_unique<tensor>(scheduler, t.bytes, ho::layer_position{t.layer, program.layers}, placed.at(i)));
  }
  for (const definition& d : program.definitions) {
    std::vector<tensor*> makes;
    for (const std::size_t t : d.makes) makes.push_back(tensors_[t].get());
    auto function = [this, &d](std::span<const std::span<std::byte>>) { return make(d); };
    ho::define_group(std::move(function), std::span<tensor* const>(makes));
  }
}

void recorded_trainer::work(double seconds) const {
  ho::launch(scheduler_.compute(), 1, [] HOSTOFFLOAD_DEVICE(std::size_t) {}, {.name = "work", .seconds = seconds});
}

ho::task<> recorded_trainer::make(const definition& d) {
  std::vector<std::pair<std::size_t, lease>> held;
  for (const action& a : d.actions) {
    switch (a.what) {
      case action::kind::work:
        work(a.seconds);
        break;
      case action::kind::use: {
        auto values = co_await *tensors_[a.tensor];
        held.emplace_back(a.tensor, std::move(values));
        break;
      }
      case action::kind::end_use:
        std::erase_if(held, [&a](const auto& l) { return l.first == a.tensor; });
        break;
      case action::kind::produce:
        break;  // not in definitions
    }
  }
}

ho::task<> recorded_trainer::step() {
  std::vector<std::optional<lease>> read(tensors_.size());
  std::vector<std::optional<ho::lease<std::byte>>> written(tensors_.size());
  for (const action& a : program_.trainer) {
    switch (a.what) {
      case action::kind::work:
        work(a.seconds);
        break;
      case action::kind::produce:
        written[a.tensor].emplace(tensors_[a.tensor]->produce(scheduler_.compute()));
        break;
      case action::kind::use:
        if (a.last) {
          auto values = co_await std::move(*tensors_[a.tensor]);
          read[a.tensor].emplace(std::move(values));
        } else {
          auto values = co_await *tensors_[a.tensor];
          read[a.tensor].emplace(std::move(values));
        }
        break;
      case action::kind::end_use:
        written[a.tensor].reset();
        read[a.tensor].reset();
        break;
    }
  }
}

}  // namespace planner
