#include <hostoffload/placement.hpp>

#include <cuda_runtime_api.h>
enum class name { q };
using table = hostoffload::placement<name, hostoffload::offload_these<name::q>>;

int main() { return table::of<name::q>::name == "q" ? 0 : 1; }
