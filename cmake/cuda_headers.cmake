# Where the declarations of the CUDA runtime API come from: the toolkit's own headers, or the bundled ones that declare
# what the virtual GPU implements.
set(HOSTOFFLOAD_CUDA_HEADERS auto CACHE STRING "Headers of the CUDA runtime API: auto, toolkit or bundled")
set_property(CACHE HOSTOFFLOAD_CUDA_HEADERS PROPERTY STRINGS auto toolkit bundled)
if(NOT HOSTOFFLOAD_CUDA_HEADERS MATCHES "^(auto|toolkit|bundled)$")
  message(FATAL_ERROR "HOSTOFFLOAD_CUDA_HEADERS is \"${HOSTOFFLOAD_CUDA_HEADERS}\"; choose auto, toolkit or bundled")
endif()

if(NOT HOSTOFFLOAD_CUDA_HEADERS STREQUAL "bundled")
  find_path(HOSTOFFLOAD_CUDA_INCLUDE_DIR cuda_runtime_api.h
            HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include targets/x86_64-linux/include)
  if(HOSTOFFLOAD_CUDA_HEADERS STREQUAL "toolkit" AND NOT HOSTOFFLOAD_CUDA_INCLUDE_DIR)
    message(FATAL_ERROR "cuda_runtime_api.h was not found; set CUDA_HOME, or HOSTOFFLOAD_CUDA_HEADERS to bundled")
  endif()
endif()

add_library(hostoffload_cuda_headers INTERFACE)
add_library(hostoffload::cuda_headers ALIAS hostoffload_cuda_headers)
set_target_properties(hostoffload_cuda_headers PROPERTIES EXPORT_NAME cuda_headers)
if(HOSTOFFLOAD_CUDA_INCLUDE_DIR AND NOT HOSTOFFLOAD_CUDA_HEADERS STREQUAL "bundled")
  set(HOSTOFFLOAD_CUDA_HEADERS_USED toolkit)
  target_include_directories(hostoffload_cuda_headers SYSTEM INTERFACE "${HOSTOFFLOAD_CUDA_INCLUDE_DIR}")
else()
  set(HOSTOFFLOAD_CUDA_HEADERS_USED bundled)
  target_include_directories(hostoffload_cuda_headers SYSTEM INTERFACE
    "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include/hostoffload/virtual_gpu/bundled>"
    "$<INSTALL_INTERFACE:include/hostoffload/virtual_gpu/bundled>")
endif()
