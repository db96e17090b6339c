# hostoffload_add_nvcc_check(name SOURCES a.cu … [LIBRARIES t …]): the sources must pass through nvcc, for the two generations of GPUs
# that matter here, and link with the CUDA runtime. The target nvcc_checks builds all of them.
enable_language(CUDA)
find_package(CUDAToolkit 12.8 REQUIRED)
add_custom_target(nvcc_checks)

function(hostoffload_add_nvcc_check name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  add_executable(${name} EXCLUDE_FROM_ALL ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES "90-real;100-real")
  # As an option, since CMake 3.25.1 does not know that nvcc has C++20.
  target_compile_options(${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--extended-lambda;-Xcompiler=-Wall,-Wextra,-Wshadow>)
  target_link_libraries(${name} PRIVATE hostoffload::hostoffload ${arg_LIBRARIES})
  add_dependencies(nvcc_checks ${name})
endfunction()
