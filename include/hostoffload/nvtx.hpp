#pragma once
// Optional: ranges for Nsight Systems, by NVTX 3 of the CUDA Toolkit. Not part of hostoffload.hpp.
//
//   ho::prefetch_scheduler scheduler({.compute = stream, .ranges = ho::nvtx_ranges});
//
// A range for each step ("step 3"), each run of a define function ("make q[2]", "recompute act[2]") and each copy
// ("copy out q[2]"). Without a tool attached a range costs a few nanoseconds; without this header, nothing.

#include <hostoffload/range_observer.hpp>

#include <nvtx3/nvToolsExt.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace hostoffload::inline v0 {

namespace detail {

inline std::uint64_t nvtx_began(range_kind what, std::string_view tensor, std::size_t index) noexcept {
  constexpr std::array<const char*, 5> words{"step", "make", "recompute", "copy out", "copy in"};
  const char* const word = words[static_cast<std::size_t>(what)];
  std::array<char, 128> text;  // longer names are cut
  if (what == range_kind::step) {
    static_cast<void>(std::snprintf(text.data(), text.size(), "%s %zu", word, index));
  } else {
    static_cast<void>(std::snprintf(text.data(), text.size(), "%s %.*s[%zu]", word, static_cast<int>(tensor.size()),
                                    tensor.data(), index));
  }
  if (what == range_kind::make || what == range_kind::recompute) return nvtxRangeStartA(text.data());
  static_cast<void>(nvtxRangePushA(text.data()));
  return 0;
}

inline void nvtx_ended(range_kind what, std::uint64_t id) noexcept {
  if (what == range_kind::make || what == range_kind::recompute) {
    nvtxRangeEnd(id);
  } else {
    static_cast<void>(nvtxRangePop());
  }
}

}  // namespace detail

inline constexpr range_observer nvtx_ranges{detail::nvtx_began, detail::nvtx_ended};

}  // namespace hostoffload::inline v0
