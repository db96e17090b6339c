#pragma once
// How tensors are made: the function is stored once, and runs at the first await and at each recomputation.

#include <hostoffload/prefetch_scheduler.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace hostoffload::inline v0 {

template <class T, class Policy>
class offload_tensor;

namespace detail {

struct tensor_access {
  template <class Tensor>
  [[nodiscard]] static tensor_record& record(Tensor& t) noexcept {
    return t.record_;
  }
  template <class Tensor>
  [[nodiscard]] static engine_ref& owner(Tensor& t) noexcept {
    return t.engine_;
  }
};

template <class Function, class... T>
class function_maker final : public maker {
  static_assert(
      std::is_invocable_v<Function&, std::span<T>...>,
      "hostoffload: define takes a function of one std::span<T> per tensor, T being the tensor's element type");
  using result = std::invoke_result_t<Function&, std::span<T>...>;
  static_assert(std::is_void_v<result> || std::is_same_v<result, task<>>,
                "hostoffload: a define function returns hostoffload::task<> (a coroutine) or void");

public:
  explicit function_maker(Function function) : function_(std::move(function)) {}

  [[nodiscard]] bool is_coroutine() const noexcept override { return !std::is_void_v<result>; }
  [[nodiscard]] task<> start() override {
    if constexpr (std::is_void_v<result>) {
      throw usage_error("a plain define function is called, not started");
    } else {
      return invoke(std::index_sequence_for<T...>{});
    }
  }
  void call() override {
    if constexpr (std::is_void_v<result>) invoke(std::index_sequence_for<T...>{});
  }

private:
  template <std::size_t... I>
  result invoke(std::index_sequence<I...>) {
    const auto out = []<class Element>(std::type_identity<Element>, const tensor_record& r) {
      return std::span<Element>(reinterpret_cast<Element*>(engine::making_pointer(r)), r.life_bytes / sizeof(Element));
    };
    return function_(out(std::type_identity<T>{}, *members[I])...);
  }

  Function function_;
};

/// For a number of tensors that is known when the program runs.
template <class Function, class T>
class list_maker final : public maker {
  static_assert(std::is_invocable_r_v<task<>, Function&, std::span<const std::span<T>>>,
                "hostoffload: define_group of a list takes a coroutine of std::span<const std::span<T>>, one span per "
                "tensor, that returns hostoffload::task<>");

public:
  explicit list_maker(Function function) : function_(std::move(function)) {}

  [[nodiscard]] bool is_coroutine() const noexcept override { return true; }
  [[nodiscard]] task<> start() override {
    out_.clear();
    for (const tensor_record* m : members)
      out_.emplace_back(reinterpret_cast<T*>(engine::making_pointer(*m)), m->life_bytes / sizeof(T));
    return function_(std::span<const std::span<T>>(out_));
  }
  void call() override {}

private:
  Function function_;
  std::vector<std::span<T>> out_;  // for as long as the function runs
};

}  // namespace detail

/// Several tensors made by one function(std::span<T1>, std::span<T2>, …), for example q, k and v: awaiting one makes
/// all. See offload_tensor::define for what the function has to keep to. When one of them is made again, what the
/// function writes for those that still hold values goes to memory that is thrown away.
template <class Function, class... T, class... Policy>
void define_group(Function function, offload_tensor<T, Policy>&... tensors) {
  static_assert(sizeof...(T) > 0, "hostoffload: define_group(function, tensor, ...) needs a tensor");
  auto made_by = std::make_shared<detail::function_maker<Function, T...>>(std::move(function));
  made_by->members = {&detail::tensor_access::record(tensors)...};
  const detail::engine_ref& owner = detail::tensor_access::owner(std::get<0>(std::tie(tensors...)));
  if (!((detail::tensor_access::owner(tensors) == owner) && ...))
    throw usage_error("define_group: the tensors of one group belong to one scheduler");
  owner->define(made_by);
}

/// The same for tensors of one kind whose number is known when the program runs: a coroutine
/// function(std::span<const std::span<T>> out), in the order of `tensors`. `out` holds until the coroutine has ended.
template <class Function, class T, class Policy>
void define_group(Function function, std::span<offload_tensor<T, Policy>* const> tensors) {
  if (tensors.empty()) throw usage_error("define_group: a list of tensors has at least one");
  auto made_by = std::make_shared<detail::list_maker<Function, T>>(std::move(function));
  const detail::engine_ref& owner = detail::tensor_access::owner(*tensors.front());
  for (offload_tensor<T, Policy>* const t : tensors) {
    if (!(detail::tensor_access::owner(*t) == owner))
      throw usage_error("define_group: the tensors of one group belong to one scheduler");
    made_by->members.push_back(&detail::tensor_access::record(*t));
  }
  owner->define(made_by);
}

}  // namespace hostoffload::inline v0
