#include "trainer.hpp"
#include "training_types.hpp"

namespace llama {

std::unique_ptr<training> make_float_training(const training_options& options, const token_stream& data) {
  return with_table(options.placement, [&]<class Table>(std::type_identity<Table>) -> std::unique_ptr<training> {
    return std::make_unique<trainer<float, Table>>(options, data);
  });
}

}  // namespace llama
