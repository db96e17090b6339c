// expect: a rule without names has no effect
#include <hostoffload/placement.hpp>
namespace ho = hostoffload;

enum class name { q };
#ifdef HOSTOFFLOAD_MENDED
using table = ho::placement<name, ho::offload_these<name::q>>;
#else
using table = ho::placement<name, ho::offload_these<name::q>, ho::remat_these<>>;
#endif
static_assert(table::of<name::q>::at({}) == ho::choice::offload);
