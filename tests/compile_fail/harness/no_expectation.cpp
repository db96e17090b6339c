#ifndef HOSTOFFLOAD_MENDED
static_assert(false, "the dog");
#endif
