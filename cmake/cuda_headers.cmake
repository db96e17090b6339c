# hostoffload_cuda_headers: the declarations of the CUDA runtime API for code that is linked with the virtual GPU; the
# toolkit's own, or the bundled ones that declare what the virtual GPU implements. Code for a real GPU links
# CUDA::cudart instead and does not need this. Also used by the installed package.
set(HOSTOFFLOAD_CUDA_HEADERS auto CACHE STRING "Headers of the CUDA runtime API: auto, toolkit or bundled")
set_property(CACHE HOSTOFFLOAD_CUDA_HEADERS PROPERTY STRINGS auto toolkit bundled)
if(NOT HOSTOFFLOAD_CUDA_HEADERS MATCHES "^(auto|toolkit|bundled)$")
  message(FATAL_ERROR "HOSTOFFLOAD_CUDA_HEADERS is \"${HOSTOFFLOAD_CUDA_HEADERS}\"; choose auto, toolkit or bundled")
endif()

set(HOSTOFFLOAD_CUDA_HEADERS_USED bundled)
if(NOT HOSTOFFLOAD_CUDA_HEADERS STREQUAL "bundled")
  find_path(HOSTOFFLOAD_CUDA_INCLUDE_DIR cuda_runtime_api.h
            HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
            PATH_SUFFIXES include targets/x86_64-linux/include targets/sbsa-linux/include)
  mark_as_advanced(HOSTOFFLOAD_CUDA_INCLUDE_DIR)
  set(_hostoffload_problem "cuda_runtime_api.h was not found")
  if(EXISTS "${HOSTOFFLOAD_CUDA_INCLUDE_DIR}/cuda_runtime_api.h")
    # 12.8, as 12080: the oldest toolkit that has every function and meaning that the library relies on.
    file(STRINGS "${HOSTOFFLOAD_CUDA_INCLUDE_DIR}/cuda_runtime_api.h" _hostoffload_version
         REGEX "^#define CUDART_VERSION +[0-9]+" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+$" _hostoffload_version "${_hostoffload_version}")
    if(_hostoffload_version GREATER_EQUAL 12080)
      set(HOSTOFFLOAD_CUDA_HEADERS_USED toolkit)
    else()
      set(_hostoffload_problem "${HOSTOFFLOAD_CUDA_INCLUDE_DIR} holds CUDA ${_hostoffload_version}, 12080 is needed")
    endif()
  endif()
  if(HOSTOFFLOAD_CUDA_HEADERS STREQUAL "toolkit" AND HOSTOFFLOAD_CUDA_HEADERS_USED STREQUAL "bundled")
    message(FATAL_ERROR "${_hostoffload_problem}: set CUDA_HOME to a CUDA toolkit from 12.8 on, or "
                        "HOSTOFFLOAD_CUDA_HEADERS to bundled")
  endif()
endif()

if(NOT HOSTOFFLOAD_VIRTUAL_GPU_DIR)
  set(HOSTOFFLOAD_VIRTUAL_GPU_DIR "${CMAKE_CURRENT_LIST_DIR}/../include/hostoffload/virtual_gpu")
endif()
add_library(hostoffload_cuda_headers INTERFACE)
add_library(hostoffload::cuda_headers ALIAS hostoffload_cuda_headers)
if(HOSTOFFLOAD_CUDA_HEADERS_USED STREQUAL "toolkit")
  message(STATUS "Declarations of the CUDA runtime: ${HOSTOFFLOAD_CUDA_INCLUDE_DIR}")
  target_include_directories(hostoffload_cuda_headers SYSTEM INTERFACE "${HOSTOFFLOAD_CUDA_INCLUDE_DIR}")
else()
  message(STATUS "Declarations of the CUDA runtime: bundled")
  target_include_directories(hostoffload_cuda_headers SYSTEM INTERFACE "${HOSTOFFLOAD_VIRTUAL_GPU_DIR}/bundled")
endif()
