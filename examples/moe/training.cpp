#include "training.hpp"

#include "tensors.hpp"
#include "training_types.hpp"

#include <algorithm>
#include <stdexcept>

namespace moe {

std::size_t offloaded_bytes_per_layer(const training_options& o) {
  const std::size_t rows = o.batch / o.micro_batches * o.model.sequence;
  const std::size_t element = examples::bytes_of(o.type);
  const std::size_t wide = std::max<std::size_t>(element, sizeof(float));
  const auto of_a_layer = [&](bool dense) {
    return bytes_with(o.placement, ho::choice::offload, o.model, dense, rows, o.model.most_routed(rows), element, wide);
  };
  const std::size_t dense = o.model.dense_layers > 0 ? of_a_layer(true) : 0;
  const std::size_t sparse = o.model.dense_layers < o.model.layers ? of_a_layer(false) : 0;
  return std::max(dense, sparse);
}

namespace {

std::unique_ptr<examples::training> make_training_of(const training_options& o, const examples::token_stream& data) {
  switch (o.type) {
    case examples::element::f32:
      return make_float_training(o, data);
    case examples::element::bf16:
      return make_bf16_training(o, data);
    case examples::element::f64:
      return make_double_training(o, data);
  }
  throw std::invalid_argument("no such element type");
}

}  // namespace

std::unique_ptr<examples::training> make_training(const training_options& o, const examples::token_stream& data) {
  check(o.model);
  data.check_sequence(o.model.sequence);
  examples::check_batch(o.batch, o.micro_batches);
  std::unique_ptr<examples::training> run = make_training_of(o, data);
  if (o.start != nullptr) run->set_values(*o.start);
  return run;
}

}  // namespace moe
