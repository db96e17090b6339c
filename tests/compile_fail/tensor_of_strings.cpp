// expect: tensors hold trivially copyable elements
#include <hostoffload/hostoffload.hpp>

#include <string>
namespace ho = hostoffload;

#ifdef HOSTOFFLOAD_MENDED
using element = float;
#else
using element = std::string;
#endif
void build(ho::prefetch_scheduler& scheduler) { ho::offload_tensor<element, ho::offload> text(scheduler, 100); }
