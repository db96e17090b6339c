#pragma once
// Says how far the pinning of a large slab has come. No CUDA here.

#include <hostoffload/memory/readable_bytes.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <ostream>
#include <stop_token>
#include <string>
#include <thread>

namespace hostoffload::inline v0::detail {

/// While it lives, a line on `log` every `every`, so none for what is faster; at the end one with the time that all
/// took, if that was longer. Writes on a thread of its own. Without a log it does nothing.
class pinning_progress {
public:
  pinning_progress(std::ostream* log, std::chrono::milliseconds every, std::size_t total)
      : log_(log), every_(every), total_(total) {
    if (log_ != nullptr) {
      watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
    }
  }
  pinning_progress(const pinning_progress&) = delete;
  pinning_progress& operator=(const pinning_progress&) = delete;
  ~pinning_progress() {
    if (log_ == nullptr) return;
    watcher_.request_stop();
    watcher_.join();
  }

  /// A line in between.
  void say(const std::string& line) {
    if (log_ == nullptr) return;
    const std::lock_guard lock(mutex_);
    *log_ << line << '\n';
  }

  /// Everything was pinned.
  void succeeded() noexcept { complete_ = true; }

  /// Bytes that are touched.
  std::atomic<std::size_t> touched{0};

private:
  void watch(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, stop, every_, [&] { return stop.stop_requested(); })) {
      *log_ << "pinning " << readable_bytes(total_) << " of host memory: " << readable_bytes(touched)
            << " touched after " << seconds() << " s" << std::endl;
    }
    if (complete_ && std::chrono::steady_clock::now() - began_ >= every_) {
      *log_ << "pinned " << readable_bytes(total_) << " of host memory in " << seconds() << " s" << std::endl;
    }
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }

  std::ostream* log_;
  std::chrono::milliseconds every_;
  std::size_t total_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::atomic<bool> complete_{false};
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread watcher_;
};

}  // namespace hostoffload::inline v0::detail
