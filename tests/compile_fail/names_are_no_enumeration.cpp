// expect: the first argument of placement is the enum class that names the model's tensors
#include <hostoffload/placement.hpp>
namespace ho = hostoffload;

#ifdef HOSTOFFLOAD_MENDED
enum class name { q };
using table = ho::placement<name, ho::offload_these<name::q>>;
#else
struct name {};
using table = ho::placement<name>;
#endif
[[maybe_unused]] table checked;
