// expect: other_model::kv_a
// expect: this rule lists names of another enumeration
// expect: use one enum class for all tensors of the model
#include <hostoffload/placement.hpp>
namespace ho = hostoffload;

enum class name { q };
enum class other_model { kv_a };
#ifdef HOSTOFFLOAD_MENDED
using table = ho::placement<name, ho::offload_these<name::q>>;
#else
using table = ho::placement<name, ho::offload_these<name::q>, ho::save_these<other_model::kv_a>>;
#endif
static_assert(table::of<name::q>::at({}) == ho::choice::offload);
