#pragma once
// What this library throws. cuda/error.hpp adds the errors that CUDA reports. No CUDA here.
//
//   error                    base of all
//   ├ usage_error            the program breaks a contract; the message says which, and what to do
//   ├ stale_graph_error      a captured step is launched that no longer fits the scheduler: capture it again
//   ├ window_error           the tensors leased at one time need more than the window
//   ├ host_capacity_error    the offloaded tensors need more than the pinned host memory allowed
//   └ cuda_error             a CUDA call failed
//      └ out_of_memory       … for lack of device or pinned host memory

#include <cstddef>
#include <stdexcept>
#include <string>

namespace hostoffload::inline v0 {

class error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

class usage_error : public error {
public:
  using error::error;
};

class stale_graph_error : public error {
public:
  using error::error;
};

/// needed() bytes are the least window with which this point of the step can be passed, or one to try where what is in
/// use divides the window; later points may need more (step_report::least_window_bytes of a completed step is the least
/// for all of it).
class window_error : public error {
public:
  window_error(const std::string& message, std::size_t needed, std::size_t window)
      : error(message), needed_(needed), window_(window) {}
  [[nodiscard]] std::size_t needed() const noexcept { return needed_; }
  [[nodiscard]] std::size_t window() const noexcept { return window_; }

private:
  std::size_t needed_;
  std::size_t window_;
};

/// needed() bytes for all offloaded tensors so far, or for a pinned slab; capacity() bytes allowed, or left to the
/// process.
class host_capacity_error : public error {
public:
  host_capacity_error(const std::string& message, std::size_t needed, std::size_t capacity)
      : error(message), needed_(needed), capacity_(capacity) {}
  [[nodiscard]] std::size_t needed() const noexcept { return needed_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

private:
  std::size_t needed_;
  std::size_t capacity_;
};

}  // namespace hostoffload::inline v0
