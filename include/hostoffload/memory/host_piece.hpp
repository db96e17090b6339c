#pragma once
// A piece of pinned memory that a scheduler cuts host slots from.

#include <hostoffload/cuda/allocation.hpp>
#include <hostoffload/memory/pinned_slab.hpp>

#include <cstddef>
#include <optional>
#include <utility>

namespace hostoffload::inline v0::detail {

/// Owns memory of cudaHostAlloc, or a slab where `how` asks for registered pages.
class host_piece {
public:
  host_piece(std::size_t bytes, const purpose& what) : allocated_(std::in_place, bytes, what) {}
  host_piece(std::size_t bytes, const purpose& what, const pinning_options& how) {
    if (how.how == pinning::registered) {
      slab_.emplace(bytes, how);
    } else {
      allocated_.emplace(bytes, what);
    }
  }
  [[nodiscard]] memory_region region() const noexcept { return slab_ ? slab_->region() : allocated_->region(); }

private:
  std::optional<pinned_slab> slab_;
  std::optional<pinned_allocation> allocated_;
};

}  // namespace hostoffload::inline v0::detail
