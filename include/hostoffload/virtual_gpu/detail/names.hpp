#pragma once
// Strings as small numbers.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hostoffload::inline v0::virtual_gpu::detail {

class names {
public:
  [[nodiscard]] std::uint32_t id(std::string_view text) {
    if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
    const auto id = static_cast<std::uint32_t>(texts_.size());
    texts_.push_back(&ids_.emplace(text, id).first->first);
    return id;
  }
  [[nodiscard]] const std::string& text(std::uint32_t id) const { return *texts_[id]; }

private:
  struct hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::uint32_t, hash, std::equal_to<>> ids_;
  std::vector<const std::string*> texts_;
};

}  // namespace hostoffload::inline v0::virtual_gpu::detail
