// expect: deleted
// expect: offload_tensor
#include <hostoffload/hostoffload.hpp>

#include <utility>
namespace ho = hostoffload;

using tensor = ho::offload_tensor<float, ho::offload>;
#ifdef HOSTOFFLOAD_MENDED
tensor& same(tensor& q) { return q; }
#else
tensor same(tensor& q) { return std::move(q); }
#endif
