#include "model.hpp"
#include "training_types.hpp"

#include "common/trainer.hpp"

namespace moe {

// For the gradient tests: a table with no copies, and one with all three placements.
std::unique_ptr<examples::training> make_double_training(const training_options& options,
                                                         const examples::token_stream& data) {
  if (options.placement == plan::save)
    return std::make_unique<examples::trainer<model<double, placements::save>>>(options, data);
  if (options.placement == plan::mixed)
    return std::make_unique<examples::trainer<model<double, placements::mixed>>>(options, data);
  throw std::invalid_argument("--type double is built for --placement save and mixed only");
}

}  // namespace moe
