// expect: a task does nothing until it is awaited
// expect: co_await it, or give it to when_all
#include <hostoffload/coroutine/task.hpp>
namespace ho = hostoffload;

ho::task<> layer();
ho::task<> forward() {
#ifdef HOSTOFFLOAD_MENDED
  co_await layer();
#else
  layer();
#endif
  co_return;
}
