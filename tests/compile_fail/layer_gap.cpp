// expect: name::kv_a
// expect: this tensor is in no rule for some layers
// expect: close the gap between its on_layers ranges
#include <hostoffload/placement.hpp>
namespace ho = hostoffload;

enum class name { kv_a };
#ifdef HOSTOFFLOAD_MENDED
constexpr int kept = -1;
#else
constexpr int kept = -2;
#endif
using table = ho::placement<name, ho::on_layers<0, kept, ho::offload_these<name::kv_a>>,
                            ho::on_layers<-1, ho::end, ho::save_these<name::kv_a>>>;
static_assert(table::of<name::kv_a>::at({.index = 0, .count = 4}) == ho::choice::offload);
