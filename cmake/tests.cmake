# hostoffload_add_test(name SOURCES a.cpp … [LIBRARIES t …] [LABELS l]): one Catch2 program, one ctest per test case.
# Label `long`: left out under the thread sanitizer, so not for tests with several threads.
#
# hostoffload_add_device_test(name [SOURCES a.cpp …] [KERNELS k.cpp …] …): the same for tests that run on either device; see
# hostoffload_add_for_devices for KERNELS. With HOSTOFFLOAD_CUDA they are built for a GPU, carry the label `gpu`, and
# leave out the cases tagged [virtual].
hostoffload_find(Catch2 catch2)
include(Catch)

function(hostoffload_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABELS" "SOURCES;LIBRARIES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "hostoffload_add_test(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE Catch2::Catch2WithMain hostoffload_warnings ${arg_LIBRARIES})
  # Catch2 ends well when a name matches no test case, as half a name does: CMake splits names at semicolons.
  set(properties FAIL_REGULAR_EXPRESSION "No test cases matched")
  if(arg_LABELS)
    list(APPEND properties LABELS ${arg_LABELS})
  endif()
  catch_discover_tests(${name} TEST_PREFIX "${name}: " DISCOVERY_TIMEOUT 120 PROPERTIES ${properties})
endfunction()

function(hostoffload_add_device_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABELS" "SOURCES;KERNELS;LIBRARIES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "hostoffload_add_device_test(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT HOSTOFFLOAD_CUDA)
    hostoffload_host_sources(kernels ${arg_KERNELS})
    hostoffload_add_test(${name} SOURCES ${arg_SOURCES} ${kernels} LABELS ${arg_LABELS}
                         LIBRARIES hostoffload::hostoffload hostoffload::virtual_gpu ${arg_LIBRARIES})
    return()
  endif()
  hostoffload_cuda_sources(kernels ${arg_KERNELS})
  add_executable(${name} ${arg_SOURCES} ${kernels})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE Catch2::Catch2WithMain hostoffload_warnings hostoffload_cuda
                                        hostoffload_gpu_control ${arg_LIBRARIES})
  catch_discover_tests(${name} TEST_SPEC "~[virtual]" TEST_PREFIX "${name}: " DISCOVERY_MODE PRE_TEST
                       PROPERTIES FAIL_REGULAR_EXPRESSION "No test cases matched" LABELS gpu)
endfunction()
