// expect: a lease that is not kept ends at once: bind it to a name
#include <hostoffload/hostoffload.hpp>
namespace ho = hostoffload;

void read(ho::offload_tensor<float, ho::offload>& q, cudaStream_t stream) {
#ifdef HOSTOFFLOAD_MENDED
  auto lease = q.fetch(stream);
#else
  q.fetch(stream);
#endif
}
