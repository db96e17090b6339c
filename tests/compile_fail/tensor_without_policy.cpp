// expect: the second argument is a policy
// expect: save, offload, remat or any_placement
#include <hostoffload/hostoffload.hpp>
namespace ho = hostoffload;

enum class name { q };
using table = ho::placement<name, ho::offload_these<name::q>>;
#ifdef HOSTOFFLOAD_MENDED
using policy = table::of<name::q>;
#else
using policy = table;
#endif
void build(ho::prefetch_scheduler& scheduler) { ho::offload_tensor<float, policy> q(scheduler, 100); }
