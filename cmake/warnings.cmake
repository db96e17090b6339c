# hostoffload_warnings: for our own programs and tests; users of the library do not inherit it. The presets for
# developers make warnings errors (CMAKE_COMPILE_WARNING_AS_ERROR), so that a newer compiler cannot break a user's build.
add_library(hostoffload_warnings INTERFACE)
target_compile_options(hostoffload_warnings INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wsign-conversion;-Wold-style-cast>)
