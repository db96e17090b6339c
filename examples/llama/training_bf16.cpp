#include "model.hpp"
#include "training_types.hpp"

#include "common/trainer.hpp"

namespace llama {

std::unique_ptr<training> make_bf16_training(const training_options& options, const token_stream& data) {
  return with_table(options.placement, [&]<class Table>(std::type_identity<Table>) -> std::unique_ptr<training> {
    return std::make_unique<examples::trainer<model<bf16, Table>>>(options, data);
  });
}

}  // namespace llama
