#include "virtual_collectives.hpp"

#include <common/element.hpp>

#include <hostoffload/launch.hpp>

#include <cstring>
#include <stdexcept>

namespace collectives {
namespace {

namespace ho = hostoffload;

/// to[i] = ranks * from[i].
template <class T>
struct sum_of_equals {
  const T* from;
  T* to;
  float ranks;
  void operator()(std::size_t i) const { to[i] = static_cast<T>(static_cast<float>(from[i]) * ranks); }
};

class virtual_communicator final : public communicator {
public:
  virtual_communicator(std::size_t ranks, std::size_t rank, const network& over)
      : ranks_(ranks), rank_(rank), network_(over) {}

  [[nodiscard]] std::size_t ranks() const override { return ranks_; }

  void all_gather(cudaStream_t stream, const void* send, void* receive, std::size_t bytes) override {
    const auto copy = [=](std::size_t r) { std::memcpy(static_cast<std::byte*>(receive) + r * bytes, send, bytes); };
    enqueue(stream, "all_gather", {send, bytes}, {receive, ranks_ * bytes}, time(ranks_ * bytes, 1), ranks_, copy);
  }

  void reduce_scatter(cudaStream_t stream, const void* send, void* receive, std::size_t elements,
                      element type) override {
    const std::size_t bytes = elements * bytes_of(type);
    const void* mine = static_cast<const std::byte*>(send) + rank_ * bytes;
    sum(stream, "reduce_scatter", {send, ranks_ * bytes}, mine, receive, elements, type, time(ranks_ * bytes, 1));
  }

  void all_reduce(cudaStream_t stream, void* values, std::size_t elements, element type) override {
    const std::size_t bytes = elements * bytes_of(type);
    sum(stream, "all_reduce", {values, bytes}, values, values, elements, type, time(bytes, 2));
  }

  void all_to_all(cudaStream_t stream, const void* send, void* receive, std::size_t bytes) override {
    const auto* mine = static_cast<const std::byte*>(send) + rank_ * bytes;
    const auto copy = [=](std::size_t r) { std::memcpy(static_cast<std::byte*>(receive) + r * bytes, mine, bytes); };
    const double over = link_bytes(static_cast<double>(ranks_ * bytes), ranks_);
    const double seconds = ranks_ == 1 ? 0 : network_.latency + over / network_.all_to_all;
    enqueue(stream, "all_to_all", {send, ranks_ * bytes}, {receive, ranks_ * bytes}, seconds, ranks_, copy);
  }

private:
  /// Of an array of `bytes` that goes around all ranks so many times.
  [[nodiscard]] double time(std::size_t bytes, double passes) const {
    if (ranks_ == 1) return 0;
    const double over = link_bytes(static_cast<double>(bytes), ranks_);
    return passes * (network_.latency + over / network_.reduce_and_gather);
  }

  template <class Function>
  void enqueue(cudaStream_t stream, const char* name, ho::byte_range from, ho::byte_range to, double seconds,
               std::size_t n, Function function) const {
    ho::launch(stream, n, function, {.name = name, .reads = {from}, .writes = {to}, .seconds = seconds});
  }

  void sum(cudaStream_t stream, const char* name, ho::byte_range reads, const void* from, void* to,
           std::size_t elements, element type, double seconds) const {
    const ho::byte_range writes{to, elements * bytes_of(type)};
    const auto ranks = static_cast<float>(ranks_);
    if (type == element::bf16) {
      using T = examples::bf16;
      enqueue(stream, name, reads, writes, seconds, elements,
              sum_of_equals<T>{static_cast<const T*>(from), static_cast<T*>(to), ranks});
    } else {
      enqueue(stream, name, reads, writes, seconds, elements,
              sum_of_equals<float>{static_cast<const float*>(from), static_cast<float*>(to), ranks});
    }
  }

  std::size_t ranks_, rank_;
  network network_;
};

}  // namespace

double link_bytes(double bytes, std::size_t ranks) {
  return bytes * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}

std::unique_ptr<communicator> make_virtual_communicator(std::size_t ranks, std::size_t rank, const network& over) {
  if (rank >= ranks) throw std::invalid_argument("rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  if (!(over.reduce_and_gather > 0 && over.all_to_all > 0 && over.latency >= 0)) {
    throw std::invalid_argument("a network has positive rates, and a latency that is not negative");
  }
  return std::make_unique<virtual_communicator>(ranks, rank, over);
}

}  // namespace collectives
