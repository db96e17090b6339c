// expect: of<> takes an enumerator
#include <hostoffload/placement.hpp>
namespace ho = hostoffload;

enum class name { q };
using table = ho::placement<name, ho::offload_these<name::q>>;
#ifdef HOSTOFFLOAD_MENDED
constexpr auto wanted = name::q;
#else
constexpr auto wanted = static_cast<name>(9);
#endif
static_assert(table::of<wanted>::at({}) == ho::choice::offload);
