#include "model.hpp"
#include "training_types.hpp"

#include "common/trainer.hpp"

namespace moe {

std::unique_ptr<examples::training> make_bf16_training(const training_options& options,
                                                       const examples::token_stream& data) {
  return with_table(options.placement,
                    [&]<class Table>(std::type_identity<Table>) -> std::unique_ptr<examples::training> {
                      return std::make_unique<examples::trainer<model<examples::bf16, Table>>>(options, data);
                    });
}

}  // namespace moe
