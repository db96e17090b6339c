// Linked into every program that is built for a GPU: where there is none, one line and exit code 2 before anything
// else.

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include <errno.h>

namespace {

const char* why_none(cudaError_t error) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) return "no driver is installed";
  return error == cudaSuccess ? "none is visible" : cudaGetErrorString(error);
}

bool find_gpu() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return true;
  const char* const program = program_invocation_short_name;
  std::fprintf(stderr, "%s: no CUDA GPU here (%s); run %s-virtual\n", program, why_none(error), program);
  std::exit(2);
}

[[maybe_unused]] const bool has_gpu = find_gpu();

}  // namespace
