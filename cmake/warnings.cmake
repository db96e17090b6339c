# For our own programs and tests; users of the library do not inherit it.
add_library(hostoffload_warnings INTERFACE)
target_compile_options(hostoffload_warnings INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wsign-conversion;-Wold-style-cast;-Werror>)
