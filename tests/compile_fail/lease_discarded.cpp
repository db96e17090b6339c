// expect: lease
#include <hostoffload/hostoffload.hpp>
namespace ho = hostoffload;

void read(ho::offload_tensor<float, ho::offload>& q, cudaStream_t stream) {
#ifdef HOSTOFFLOAD_MENDED
  auto lease = q.fetch(stream);
#else
  q.fetch(stream);
#endif
}
