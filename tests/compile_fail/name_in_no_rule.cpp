// expect: name::kv_a
// expect: this tensor is in no rule of the placement
// expect: add it to save_these, offload_these or remat_these
#include <hostoffload/placement.hpp>
namespace ho = hostoffload;

enum class name { q, kv_a };
#ifdef HOSTOFFLOAD_MENDED
using table = ho::placement<name, ho::offload_these<name::q, name::kv_a>>;
#else
using table = ho::placement<name, ho::offload_these<name::q>>;
#endif
static_assert(table::of<name::q>::at({}) == ho::choice::offload);
