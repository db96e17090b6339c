#include <hostoffload/virtual_gpu/detail/effect.hpp>

#include <cstring>

#include <hostoffload/virtual_gpu/detail/allocation.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

void effect::perform() {
  const unpoisoned touchable(ranges);
  switch (kind) {
    case action::nothing:
      break;
    case action::run:
      code.run();
      break;
    case action::copy:
      for (std::size_t row = 0; row < rows; ++row) {
        std::memmove(to + row * to_pitch, (from != nullptr ? from : staged.data()) + row * from_pitch, count);
      }
      break;
    case action::set:
      for (std::size_t row = 0; row < rows; ++row) std::memset(to + row * to_pitch, value, count);
      break;
  }
}

void effect::clear() {
  kind = action::nothing;
  to = nullptr;
  from = nullptr;
  count = to_pitch = from_pitch = 0;
  rows = 1;
  code.clear();
  ranges.clear();
  staged.clear();
}

void effect::swap(effect& other) noexcept {
  std::swap(kind, other.kind);
  std::swap(value, other.value);
  std::swap(to, other.to);
  std::swap(from, other.from);
  std::swap(count, other.count);
  std::swap(rows, other.rows);
  std::swap(to_pitch, other.to_pitch);
  std::swap(from_pitch, other.from_pitch);
  code.swap(other.code);
  ranges.swap(other.ranges);
  staged.swap(other.staged);
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
