// expect: are awaited in a coroutine that returns hostoffload::task
#include <hostoffload/coroutine/task.hpp>

#include <coroutine>
#include <exception>
namespace ho = hostoffload;

struct other_task {
  struct promise_type {
    other_task get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};
#ifdef HOSTOFFLOAD_MENDED
using result = ho::task<>;
#else
using result = other_task;
#endif
result forward(ho::task<> layer) { co_await layer; }
