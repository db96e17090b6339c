# Programs and libraries that are built for each device from the same sources. Without HOSTOFFLOAD_CUDA there is one
# device, the virtual GPU. With it a target `llama` is for a GPU, and `llama-virtual` its twin.
option(HOSTOFFLOAD_CUDA "Build for a GPU: nvcc, the CUDA runtime; and -virtual twins of the examples" OFF)

set(hostoffload_devices virtual)
set(hostoffload_suffix_virtual "")
set(hostoffload_library_virtual hostoffload::virtual_gpu)
if(HOSTOFFLOAD_CUDA)
  set(hostoffload_devices cuda virtual)
  set(hostoffload_suffix_cuda "")
  set(hostoffload_suffix_virtual "-virtual")
  # The two generations of GPUs that matter here.
  set(CMAKE_CUDA_ARCHITECTURES "90-real;100-real" CACHE STRING "GPUs to compile for, as in CMake's CUDA_ARCHITECTURES")
  enable_language(CUDA)
  find_package(CUDAToolkit 12.8 REQUIRED)
  find_package(OpenBLAS QUIET GLOBAL)
  if(NOT OpenBLAS_FOUND)
    message(STATUS "No OpenBLAS: no -virtual twins")
    set(hostoffload_devices cuda)
  endif()

  add_library(hostoffload_cuda INTERFACE)
  set(hostoffload_library_cuda hostoffload_cuda)
  # As an option, since CMake 3.25.1 does not know that nvcc has C++20. The second --threads is for the architectures.
  target_compile_options(hostoffload_cuda INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--extended-lambda;--threads=2;-Xcompiler=-Wall,-Wextra,-Wshadow>)
  target_link_libraries(hostoffload_cuda INTERFACE hostoffload::hostoffload CUDA::cudart)
endif()

# hostoffload_cuda_sources(list a.cpp b.cu …): the same sources for nvcc; a .cpp is included by a generated .cu, since a
# file has one language in a folder.
function(hostoffload_cuda_sources result)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    if(NOT source MATCHES "\\.cu$")
      cmake_path(GET source STEM stem)
      file(CONFIGURE OUTPUT "cuda/${stem}.cu" CONTENT "#include \"${source}\"\n" @ONLY)
      set(source "${CMAKE_CURRENT_BINARY_DIR}/cuda/${stem}.cu")
    endif()
    list(APPEND sources "${source}")
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# hostoffload_host_sources(list a.cpp b.cu …): the same sources for the host compiler.
function(hostoffload_host_sources result)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    if(source MATCHES "\\.cu$")
      cmake_path(GET source STEM stem)
      file(CONFIGURE OUTPUT "host/${stem}.cpp" CONTENT "#include \"${source}\"\n" @ONLY)
      set(source "${CMAKE_CURRENT_BINARY_DIR}/host/${stem}.cpp")
    endif()
    list(APPEND sources "${source}")
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# hostoffload_add_for_devices(EXECUTABLE|LIBRARY name [SOURCES a.cpp …] [KERNELS k.cpp …] [VIRTUAL v.cpp …] [CUDA c.cpp …]
#   [LIBRARIES t …] [VIRTUAL_LIBRARIES t …] [CUDA_LIBRARIES t …] [INCLUDES dir …] [DEFINITIONS d …] [OPTIONS o …])
# KERNELS are what launches kernels: nvcc compiles them for a GPU. VIRTUAL…
# and CUDA… are for one device only. Of
# LIBRARIES that were made by this function each device has its own. OPTIONS are the host compiler's. Libraries pass
# INCLUDES on. An executable for a GPU ends with one line where there is none: examples/common/require_gpu.cpp.
function(hostoffload_add_for_devices kind name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" ""
    "SOURCES;KERNELS;VIRTUAL;CUDA;LIBRARIES;VIRTUAL_LIBRARIES;CUDA_LIBRARIES;INCLUDES;DEFINITIONS;OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "hostoffload_add_for_devices(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(device IN LISTS hostoffload_devices)
    set(target ${name}${hostoffload_suffix_${device}})
    if(device STREQUAL "cuda")
      hostoffload_cuda_sources(kernels ${arg_KERNELS})
      set(sources ${arg_SOURCES} ${arg_CUDA} ${kernels})
    else()
      hostoffload_host_sources(kernels ${arg_KERNELS})
      set(sources ${arg_SOURCES} ${arg_VIRTUAL} ${kernels})
    endif()
    if(kind STREQUAL "LIBRARY")
      add_library(${target} STATIC ${sources})
      set(scope PUBLIC)
    else()
      add_executable(${target} ${sources})
      if(device STREQUAL "cuda")
        target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/examples/common/require_gpu.cpp")
      endif()
      set(scope PRIVATE)
    endif()
    target_include_directories(${target} ${scope} ${arg_INCLUDES})
    target_compile_definitions(${target} PRIVATE ${arg_DEFINITIONS})
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${arg_OPTIONS}>")
    target_link_libraries(${target} ${scope} hostoffload::hostoffload ${hostoffload_library_${device}}
                                    PRIVATE hostoffload_warnings)
    foreach(library IN LISTS arg_LIBRARIES)
      if(TARGET ${library}${hostoffload_suffix_${device}})
        string(APPEND library "${hostoffload_suffix_${device}}")
      endif()
      target_link_libraries(${target} ${scope} ${library})
    endforeach()
    string(TOUPPER ${device} own)
    target_link_libraries(${target} PRIVATE ${arg_${own}_LIBRARIES})
  endforeach()
endfunction()
