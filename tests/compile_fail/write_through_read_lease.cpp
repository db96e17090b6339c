// expect: const
#include <hostoffload/hostoffload.hpp>
namespace ho = hostoffload;

#ifdef HOSTOFFLOAD_MENDED
using pointer = const float*;
#else
using pointer = float*;
#endif
ho::task<> read(ho::offload_tensor<float, ho::offload>& q) {
  auto lease = co_await q;
  [[maybe_unused]] pointer values = lease.data();
}
