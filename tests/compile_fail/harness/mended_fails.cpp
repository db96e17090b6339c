// expect: the dog
static_assert(false, "the dog");
