// expect: tensors are aligned to 256 bytes: elements that need more cannot be held
#include <hostoffload/hostoffload.hpp>
namespace ho = hostoffload;

#ifdef HOSTOFFLOAD_MENDED
struct alignas(256) element {
#else
struct alignas(512) element {
#endif
  float values[128];
};
void build(ho::prefetch_scheduler& scheduler) { ho::offload_tensor<element, ho::offload> wide(scheduler, 100); }
