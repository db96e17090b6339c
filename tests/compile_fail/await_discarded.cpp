// only: Clang (g++ 12 takes a dropped result of co_await)
// expect: a lease that is not kept ends at once
// expect: bind it to a name
#include <hostoffload/hostoffload.hpp>
namespace ho = hostoffload;

ho::task<> forward(ho::offload_tensor<float, ho::offload>& q) {
#ifdef HOSTOFFLOAD_MENDED
  auto lease = co_await q;
#else
  co_await q;
#endif
}
