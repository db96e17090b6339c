#pragma once
// A value that the host has to read in the middle of a step, such as the number of tokens per expert.

#include <hostoffload/coroutine/loop.hpp>
#include <hostoffload/cuda/event.hpp>

#include <exception>

namespace hostoffload::inline v0::detail {

/// A coroutine waits for bytes on their way to the host. Lives in the awaiter.
struct host_value_request {
  event_ref arrived;
  promise_base* waiter = nullptr;
  branch* line = nullptr;
  host_value_request* next = nullptr;
  std::exception_ptr failure{};
};

}  // namespace hostoffload::inline v0::detail
