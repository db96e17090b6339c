#pragma once
// A lease: the right to use a tensor's device memory on one stream, until it ends.

#include <hostoffload/prefetch_scheduler.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <type_traits>
#include <utility>

namespace hostoffload::inline v0 {

namespace detail {
struct lease_access;
}

/// lease<T> is writable (from produce), lease<const T> is for reading. While it lives, work enqueued on its stream
/// finds the tensor's values at data(), and nobody else uses these bytes. It ends with end() or at the end of its
/// scope; work enqueued before that is waited for by whoever gets the bytes next, in stream order. Moved-from and
/// ended: empty. A tensor whose writable lease is left by an exception has no values. Ending it may enqueue copies; an
/// error there is thrown by the next await, produce or fetch, or at the end of the step.
template <class T>
class lease {
public:
  lease(lease&& other) noexcept
      : engine_(std::move(other.engine_)),
        tensor_(other.tensor_),
        data_(std::exchange(other.data_, nullptr)),
        elements_(std::exchange(other.elements_, 0)),
        generation_(other.generation_),
        stream_(other.stream_),
        exceptions_(other.exceptions_) {}
  lease& operator=(lease&& other) noexcept {
    lease(std::move(other)).swap(*this);
    return *this;
  }
  ~lease() {
    if (data_ == nullptr) return;
    if constexpr (std::is_const_v<T>) {
      give_back(false);
    } else {
      give_back(std::uncaught_exceptions() > exceptions_);
    }
  }

  void swap(lease& other) noexcept {
    std::swap(engine_, other.engine_);
    std::swap(tensor_, other.tensor_);
    std::swap(data_, other.data_);
    std::swap(elements_, other.elements_);
    std::swap(generation_, other.generation_);
    std::swap(stream_, other.stream_);
    std::swap(exceptions_, other.exceptions_);
  }

  /// Device pointer, aligned to 256 bytes.
  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return elements_; }
  [[nodiscard]] std::span<T> span() const noexcept { return {data_, elements_}; }

  void end() noexcept {
    if (std::exchange(data_, nullptr) == nullptr) return;
    elements_ = 0;
    give_back(false);
  }

private:
  friend struct detail::lease_access;
  lease(detail::engine_ref owner, const detail::granted_lease& granted) noexcept
      : engine_(std::move(owner)),
        tensor_(granted.tensor),
        data_(reinterpret_cast<T*>(granted.data)),
        elements_(granted.tensor->life_bytes / sizeof(T)),
        generation_(granted.generation),
        stream_(granted.stream) {}

  void give_back(bool left_by_exception) noexcept {
    engine_->end_lease(*tensor_, generation_, stream_, !std::is_const_v<T>, left_by_exception);
  }

  detail::engine_ref engine_;
  detail::tensor_record* tensor_;
  T* data_;
  std::size_t elements_;
  std::uint64_t generation_;
  detail::stream_id stream_;
  int exceptions_ = std::is_const_v<T> ? 0 : std::uncaught_exceptions();
};

namespace detail {
struct lease_access {
  template <class T>
  [[nodiscard]] static lease<T> make(engine_ref owner, const granted_lease& granted) noexcept {
    return lease<T>(std::move(owner), granted);
  }
};
}  // namespace detail

static_assert(std::is_nothrow_move_constructible_v<lease<const float>> &&
              !std::is_copy_constructible_v<lease<const float>>);

}  // namespace hostoffload::inline v0
