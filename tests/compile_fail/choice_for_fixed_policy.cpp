// expect: this tensor's policy decides its placement: change the table, or use any_placement
#include <hostoffload/hostoffload.hpp>
namespace ho = hostoffload;

enum class name { q };
using table = ho::placement<name, ho::offload_these<name::q>>;
#ifdef HOSTOFFLOAD_MENDED
using policy = ho::any_placement<name::q>;
#else
using policy = table::of<name::q>;
#endif
void build(ho::prefetch_scheduler& scheduler) {
  ho::offload_tensor<float, policy> q(scheduler, 100, ho::layer_position{}, ho::choice::save);
}
