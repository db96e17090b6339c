#pragma once
// Who is told when the host begins and ends to enqueue something: tools that show a program's time by name. No CUDA
// here.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace hostoffload::inline v0 {

enum class range_kind : std::uint8_t {
  step,       // index: its number
  make,       // a tensor, with its layer as index, and what is made with it; other coroutines may run in between
  recompute,  // the same, of values that were dropped
  copy_out,   // the call that enqueues it
  copy_in,
};

/// `began` returns what `ended` is given. Steps and copies end in the reverse order of their beginning; makes do not.
/// The functions must not throw or call back.
struct range_observer {
  std::uint64_t (*began)(range_kind what, std::string_view tensor, std::size_t index) noexcept = nullptr;
  void (*ended)(range_kind what, std::uint64_t id) noexcept = nullptr;
};

namespace detail {

/// A range that is a scope.
class observed_range {
public:
  observed_range(const range_observer& observer, range_kind what, std::string_view tensor, std::size_t index) noexcept
      : observer_(observer.began != nullptr ? &observer : nullptr), what_(what) {
    if (observer_ != nullptr) id_ = observer_->began(what, tensor, index);
  }
  observed_range(observed_range&& other) noexcept
      : observer_(std::exchange(other.observer_, nullptr)), what_(other.what_), id_(other.id_) {}
  observed_range& operator=(observed_range&&) = delete;
  ~observed_range() {
    if (observer_ != nullptr) observer_->ended(what_, id_);
  }

private:
  const range_observer* observer_;
  range_kind what_;
  std::uint64_t id_ = 0;
};

}  // namespace detail

}  // namespace hostoffload::inline v0
