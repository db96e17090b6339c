// expect: name::kv_a
// expect: this tensor is in two rules for the same layer
// expect: leave it in one
#include <hostoffload/placement.hpp>
namespace ho = hostoffload;

enum class name { q, kv_a };
#ifdef HOSTOFFLOAD_MENDED
using table = ho::placement<name, ho::offload_these<name::q, name::kv_a>>;
#else
using table = ho::placement<name, ho::offload_these<name::q, name::kv_a>, ho::save_these<name::kv_a>>;
#endif
static_assert(table::of<name::q>::at({}) == ho::choice::offload);
