// expect: placement takes rules: save_these, offload_these, remat_these
#include <hostoffload/placement.hpp>
namespace ho = hostoffload;

enum class name { q };
#ifdef HOSTOFFLOAD_MENDED
using table = ho::placement<name, ho::offload_these<name::q>>;
#else
using table = ho::placement<name, ho::offload_these<name::q>, ho::remat>;
#endif
static_assert(table::of<name::q>::at({}) == ho::choice::offload);
