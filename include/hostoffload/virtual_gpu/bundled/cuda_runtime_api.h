#pragma once
// Stands in for the toolkit's header of this name where no toolkit is installed: what the virtual GPU serves, with CUDA
// 13's names, values and layouts.

#include <stddef.h>

#include "hostoffload_cuda_errors.h"
#include "hostoffload_cuda_per_thread.h"
#include "hostoffload_cuda_types.h"

#ifdef __cplusplus
#define HOSTOFFLOAD_CUDA_DEFAULT(value) = value
#endif
#include "hostoffload_cuda_functions.h"
#undef HOSTOFFLOAD_CUDA_DEFAULT
