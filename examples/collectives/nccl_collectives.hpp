#pragma once
// A rank on a GPU, through NCCL.

#include "collectives.hpp"

#include <nccl.h>

#include <memory>

namespace collectives {

/// `group` comes from ncclCommInitRank, is not owned, and outlives what is enqueued. The calls may be captured in a
/// CUDA graph as NCCL's may. Throws ho::error with NCCL's text.
[[nodiscard]] std::unique_ptr<communicator> make_nccl_communicator(ncclComm_t group);

}  // namespace collectives
