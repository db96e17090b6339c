# hostoffload_find(Catch2 catch2 [find_package's further arguments]): find_package, and one line that says what to
# install when it fails; nothing to do where the sources are packed along. Called by what needs the dependency, so that
# nothing else asks for it. A macro: the variables that find_package sets are the caller's.
if(EXISTS "${PROJECT_SOURCE_DIR}/tests/gpu/packed" AND PROJECT_IS_TOP_LEVEL)
  include(packed)
endif()

macro(hostoffload_find name debian_package)
  if(NOT ${name} IN_LIST HOSTOFFLOAD_PACKED)
    find_package(${name} QUIET GLOBAL ${ARGN})
    if(NOT ${name}_FOUND)
      message(FATAL_ERROR "hostoffload: ${name} was not found: apt-get install ${debian_package}")
    endif()
  endif()
endmacro()
