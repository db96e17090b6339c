#pragma once
// offload_tensor<T, Policy>: a named value that outlives the forward pass. Where it stays in between is its type.

#include <hostoffload/define.hpp>
#include <hostoffload/lease.hpp>
#include <hostoffload/placement.hpp>
#include <hostoffload/tensor_await.hpp>

#include <cuda_runtime_api.h>

#include <concepts>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hostoffload::inline v0 {

/// `T` is trivially copyable; `Policy` comes from a placement table (table::of<name::q>), or is save, offload or remat,
/// or any_placement. Neither copied nor moved: the scheduler and define functions refer to it. Build it once, use it
/// every step.
template <class T, class Policy>
class offload_tensor {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>,
                "hostoffload: tensors hold trivially copyable elements: their bytes are copied to the host and back");
  static_assert(alignof(T) <= detail::slot_alignment,
                "hostoffload: tensors are aligned to 256 bytes: elements that need more cannot be held");
  static_assert(placement_policy<Policy> || chosen_policy<Policy>,
                "hostoffload: the second argument is a policy: placement<...>::of<name::...>, save, offload, remat or "
                "any_placement");

public:
  using element_type = T;

  /// `elements` per tensor; `at` decides which on_layers rules hold. Offloaded tensors are given pinned host memory
  /// when the next step begins. Throws host_capacity_error, usage_error.
  offload_tensor(prefetch_scheduler& scheduler, std::size_t elements,
                 layer_position at = {}) requires placement_policy<Policy>
      : offload_tensor(scheduler, elements, at, Policy::name, Policy::at(checked(at, Policy::name))) {}

  /// With a policy that takes its choice now.
  offload_tensor(prefetch_scheduler& scheduler, std::size_t elements, layer_position at,
                 choice chosen) requires chosen_policy<Policy>
      : offload_tensor(scheduler, elements, at, Policy::name, Policy(chosen).at(checked(at, Policy::name))) {}

  /// With a policy that has decided already: does not compile.
  template <std::same_as<choice> Choice>
  offload_tensor(prefetch_scheduler& scheduler, std::size_t elements, layer_position at,
                 Choice chosen) requires placement_policy<Policy>
      : offload_tensor(scheduler, elements, at, Policy::name, chosen) {
    static_assert(chosen_policy<Policy>,
                  "hostoffload: this tensor's policy decides its placement: change the table, or use "
                  "any_placement for a choice at construction");
  }

  offload_tensor(const offload_tensor&) = delete;
  offload_tensor& operator=(const offload_tensor&) = delete;
  offload_tensor(offload_tensor&&) = delete;  // no std::vector of tensors: a std::deque, or std::unique_ptr
  offload_tensor& operator=(offload_tensor&&) = delete;
  ~offload_tensor() { engine_->remove(record_); }

  /// That it was built for; resize may have made its present life smaller.
  [[nodiscard]] std::size_t elements() const noexcept { return elements_; }
  [[nodiscard]] std::string_view name() const noexcept { return record_.name; }
  /// save, offload or remat: what became of the placement. A plan may change it from one step to the next, between
  /// offload and remat, for offload_or_remat.
  [[nodiscard]] choice placed() const noexcept { return record_.treated_as(); }

  /// How the tensor is made: function(std::span<T> out) enqueues on the scheduler's compute stream what fills `out`
  /// (device memory, elements() of them). It returns task<> and may await other tensors, or void and may fetch them. It
  /// runs at the first await in a step, and again, with the same result to the last bit, where the tensor is
  /// rematerialised: what it draws at random has to come from a counter-based generator. It is stored here and lives as
  /// long as the tensor. Beside other coroutines (when_all) it should be a coroutine itself: a plain function cannot
  /// wait for a tensor that another coroutine is making, nor for room in the window, and throws.
  template <class Function>
  void define(Function function) {
    define_group(std::move(function), *this);
  }

  /// Fewer elements for one life, for tensors whose size is known only within the step, such as those of the tokens
  /// that were routed somewhere. Called in a step before the tensor is made: it then takes a slot in the window, is
  /// copied and is leased with `elements`. Called while its define function runs, which has room for what it had
  /// before: what is copied and leased shrinks. The life's end brings back the size that it was built for; a tensor
  /// that is made for a recomputation between two lives takes this size too, and leaves it to the life that comes. A
  /// tensor outside the window keeps its room on the device. The size that it has already is always good. Throws
  /// usage_error.
  void resize(std::size_t elements) { engine_->resize(record_, bytes_of(elements, record_.name)); }

  /// Device memory to fill on stream `on`: for code that makes the tensor itself. Throws usage_error while it holds
  /// values, window_error, out_of_memory. Does not synchronize.
  [[nodiscard("hostoffload: a lease that is not kept ends at once: bind it to a name")]] lease<T> produce(
      cudaStream_t on) {
    detail::lease_request q(record_, engine_->stream_of_lease(on), false);
    engine_->begin_produce(q);
    return detail::lease_access::make<T>(engine_, q);
  }

  /// The values, for reading on stream `on`, in straight-line code; the lvalue form keeps the tensor, the rvalue form
  /// (std::move(t).fetch(stream)) is its last use. Throws what an await throws. Does not synchronize.
  [[nodiscard("hostoffload: a lease that is not kept ends at once: bind it to a name")]] lease<const T> fetch(
      cudaStream_t on) & {
    return fetch_now(on, false);
  }
  [[nodiscard("hostoffload: a lease that is not kept ends at once: bind it to a name")]] lease<const T> fetch(
      cudaStream_t on) && {
    return fetch_now(on, true);
  }

  /// The values, for reading on the compute stream: co_await t, or co_await std::move(t) for the last use, after which
  /// the memory goes back. Makes, recomputes or fetches them where needed; a tensor that is resident, or still leaving,
  /// is taken over. Throws usage_error (neither produced nor defined), window_error, cuda_error, and what the define
  /// function throws.
  [[nodiscard]] detail::tensor_awaiter<T> operator co_await() & {
    return {engine_, record_, engine_->compute(), false};
  }
  [[nodiscard]] detail::tensor_awaiter<T> operator co_await() && {
    return {engine_, record_, engine_->compute(), true};
  }

  /// The same on another stream; the work there is ordered behind the writer, and the next user of the memory behind
  /// it.
  [[nodiscard]] detail::tensor_on_stream<T> on(cudaStream_t other) & noexcept {
    return {engine_, record_, other, false};
  }
  [[nodiscard]] detail::tensor_on_stream<T> on(cudaStream_t other) && noexcept {
    return {engine_, record_, other, true};
  }

private:
  friend struct detail::tensor_access;

  offload_tensor(prefetch_scheduler& scheduler, std::size_t elements, layer_position at, std::string_view name,
                 choice chosen)
      : engine_(detail::engine_access::of(scheduler)),
        record_(engine_->add(name, at, bytes_of(elements, name), chosen)),
        elements_(elements) {}

  static layer_position checked(layer_position at, std::string_view name) {
    if (at.index < at.count) return at;
    throw usage_error("tensor " + std::string(name) + ": layer " + std::to_string(at.index) + " of " +
                      std::to_string(at.count) + ": layers are counted from 0");
  }
  static std::size_t bytes_of(std::size_t elements, std::string_view name) {
    if (elements <= (std::numeric_limits<std::size_t>::max() / 2) / sizeof(T)) return elements * sizeof(T);
    throw usage_error("tensor " + std::string(name) + ": " + std::to_string(elements) +
                      " elements are more than can be addressed");
  }

  lease<const T> fetch_now(cudaStream_t on, bool last_use) {
    detail::granted_lease played;
    if (engine_->play_next_lease(played, record_, on, last_use))
      return detail::lease_access::make<const T>(engine_, played);
    detail::lease_request q(record_, engine_->stream_of_lease(on), last_use);
    engine_->lease_now(q);
    return detail::lease_access::make<const T>(engine_, q);
  }

  detail::engine_ref engine_;
  detail::tensor_record& record_;
  std::size_t elements_;
};

}  // namespace hostoffload::inline v0
