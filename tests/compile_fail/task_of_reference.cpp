// expect: task<T&> would dangle
// expect: return a pointer or a value
#include <hostoffload/coroutine/task.hpp>
namespace ho = hostoffload;

#ifdef HOSTOFFLOAD_MENDED
using result = float*;
#else
using result = float&;
#endif
ho::task<result> loss();
void forward() { [[maybe_unused]] const auto waiting = loss(); }
