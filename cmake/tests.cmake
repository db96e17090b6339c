# hostoffload_add_test(name SOURCES a.cpp … [LIBRARIES t …] [LABELS l …]): one Catch2 program, one ctest per test case.
hostoffload_find(Catch2 catch2)
include(Catch)

function(hostoffload_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES;LABELS")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE Catch2::Catch2WithMain hostoffload_warnings ${arg_LIBRARIES})
  catch_discover_tests(${name} TEST_PREFIX "${name}: " PROPERTIES LABELS "${arg_LABELS}")
endfunction()
