#pragma once
// Coroutine frames are recycled, so that a steady step allocates none. No CUDA here.

#include <array>
#include <cstddef>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define HOSTOFFLOAD_RECYCLE_FRAMES 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOSTOFFLOAD_RECYCLE_FRAMES 0
#endif
#endif
#ifndef HOSTOFFLOAD_RECYCLE_FRAMES
#define HOSTOFFLOAD_RECYCLE_FRAMES \
  1  // under the address sanitizer frames come from the heap, so that it sees a dead one used
#endif

namespace hostoffload::inline v0::detail {

/// Free frames of one thread, by size in steps of 64 bytes; larger ones go to the heap.
class frame_pool {
public:
  frame_pool() noexcept = default;
  frame_pool(const frame_pool&) = delete;
  frame_pool& operator=(const frame_pool&) = delete;

  ~frame_pool() {
    ended() = true;
    for (node*& head : free_) {
      while (head != nullptr) {
        node* const next = head->next;
        ::operator delete(head);
        head = next;
      }
    }
  }

  [[nodiscard]] static void* allocate(std::size_t bytes) {
    const std::size_t size_class = class_of(bytes);
    if (!HOSTOFFLOAD_RECYCLE_FRAMES || size_class >= classes || ended()) return ::operator new(bytes);
    node*& head = mine().free_[size_class];
    if (head == nullptr) return ::operator new((size_class + 1) * step);
    return std::exchange(head, head->next);
  }

  /// A frame may end on another thread than it began on, and after that thread's pool.
  static void deallocate(void* frame, std::size_t bytes) noexcept {
    const std::size_t size_class = class_of(bytes);
    if (!HOSTOFFLOAD_RECYCLE_FRAMES || size_class >= classes || ended()) {
      ::operator delete(frame);
      return;
    }
    node*& head = mine().free_[size_class];
    head = ::new (frame) node{head};
  }

private:
  struct node {
    node* next;
  };
  static constexpr std::size_t step = 64;
  static constexpr std::size_t classes = 64;

  static std::size_t class_of(std::size_t bytes) noexcept { return (bytes - 1) / step; }
  static bool& ended() noexcept {  // trivially destructible, so it can be read after the pool's end
    thread_local bool flag = false;
    return flag;
  }
  static frame_pool& mine() noexcept {
    thread_local frame_pool pool;
    return pool;
  }

  std::array<node*, classes> free_{};
};

}  // namespace hostoffload::inline v0::detail
