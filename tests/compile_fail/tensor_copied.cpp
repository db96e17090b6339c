// expect: deleted
// expect: offload_tensor
#include <hostoffload/hostoffload.hpp>
namespace ho = hostoffload;

using tensor = ho::offload_tensor<float, ho::offload>;
#ifdef HOSTOFFLOAD_MENDED
const tensor& same(const tensor& q) { return q; }
#else
tensor same(const tensor& q) { return q; }
#endif
