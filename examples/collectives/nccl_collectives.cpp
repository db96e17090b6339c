#include "nccl_collectives.hpp"

#include <hostoffload/errors.hpp>

#include <string>

namespace collectives {
namespace {

namespace ho = hostoffload;

void check(ncclResult_t code, const char* call) {
  if (code != ncclSuccess) throw ho::error(std::string(call) + ": " + ncclGetErrorString(code));
}

ncclDataType_t nccl_type(element e) { return e == element::bf16 ? ncclBfloat16 : ncclFloat32; }

class nccl_communicator final : public communicator {
public:
  explicit nccl_communicator(ncclComm_t group) : group_(group) {
    int count = 0;
    check(ncclCommCount(group, &count), "ncclCommCount");
    ranks_ = static_cast<std::size_t>(count);
  }

  [[nodiscard]] std::size_t ranks() const override { return ranks_; }

  void all_gather(cudaStream_t stream, const void* send, void* receive, std::size_t bytes) override {
    check(ncclAllGather(send, receive, bytes, ncclInt8, group_, stream), "ncclAllGather");
  }
  void reduce_scatter(cudaStream_t stream, const void* send, void* receive, std::size_t elements,
                      element type) override {
    check(ncclReduceScatter(send, receive, elements, nccl_type(type), ncclSum, group_, stream), "ncclReduceScatter");
  }
  void all_reduce(cudaStream_t stream, void* values, std::size_t elements, element type) override {
    check(ncclAllReduce(values, values, elements, nccl_type(type), ncclSum, group_, stream), "ncclAllReduce");
  }
  void all_to_all(cudaStream_t stream, const void* send, void* receive, std::size_t bytes) override {
    // Pairs in one group: ncclAlltoAll came with NCCL 2.28.
    check(ncclGroupStart(), "ncclGroupStart");
    for (std::size_t r = 0; r < ranks_; ++r) {
      const auto peer = static_cast<int>(r);
      check(ncclSend(static_cast<const std::byte*>(send) + r * bytes, bytes, ncclInt8, peer, group_, stream),
            "ncclSend");
      check(ncclRecv(static_cast<std::byte*>(receive) + r * bytes, bytes, ncclInt8, peer, group_, stream), "ncclRecv");
    }
    check(ncclGroupEnd(), "ncclGroupEnd");
  }

private:
  ncclComm_t group_;
  std::size_t ranks_ = 0;
};

}  // namespace

std::unique_ptr<communicator> make_nccl_communicator(ncclComm_t group) {
  return std::make_unique<nccl_communicator>(group);
}

}  // namespace collectives
