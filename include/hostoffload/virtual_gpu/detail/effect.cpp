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
      std::memmove(to, from != nullptr ? from : staged.data(), count);
      break;
    case action::set:
      std::memset(to, value, count);
      break;
  }
}

void effect::clear() {
  kind = action::nothing;
  to = nullptr;
  from = nullptr;
  count = 0;
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
  code.swap(other.code);
  ranges.swap(other.ranges);
  staged.swap(other.staged);
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
