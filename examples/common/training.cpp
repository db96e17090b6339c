#include "training.hpp"

#include <stdexcept>
#include <string>

namespace examples {

void check_batch(std::size_t batch, std::size_t micro_batches) {
  if (micro_batches == 0) throw std::invalid_argument("--micro-batches must be at least 1");
  if (batch == 0 || batch > 65536) throw std::invalid_argument("--batch must be between 1 and 65536");
  if (batch % micro_batches != 0) {
    throw std::invalid_argument("--batch " + std::to_string(batch) + " is not a multiple of --micro-batches " +
                                std::to_string(micro_batches));
  }
}

}  // namespace examples
