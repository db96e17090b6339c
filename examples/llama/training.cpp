#include "training.hpp"

#include "training_types.hpp"

#include <stdexcept>

namespace llama {

std::size_t offloaded_bytes_per_layer(const training_options& o) {
  return with_table(o.placement, [&]<class Table>(std::type_identity<Table>) {
    const std::size_t element_bytes = bytes_of(o.type);
    const std::size_t rows = o.batch / o.micro_batches * o.model.sequence;
    std::size_t bytes = 0;
    const auto add = [&](ho::choice where, std::size_t per_row) {
      bytes += where == ho::choice::offload ? rows * per_row : 0;
    };
    const ho::layer_position any{0, 1};
    add(Table::template of<name::input>::at(any), o.model.hidden * element_bytes);
    add(Table::template of<name::q>::at(any), o.model.hidden * element_bytes);
    add(Table::template of<name::k>::at(any), o.model.kv_width() * element_bytes);
    add(Table::template of<name::v>::at(any), o.model.kv_width() * element_bytes);
    add(Table::template of<name::attention>::at(any), o.model.hidden * element_bytes);
    add(Table::template of<name::lse>::at(any), o.model.heads * (o.type == element::f64 ? 8 : 4));
    add(Table::template of<name::attention_out>::at(any), o.model.hidden * element_bytes);
    add(Table::template of<name::gate>::at(any), o.model.ffn * element_bytes);
    add(Table::template of<name::up>::at(any), o.model.ffn * element_bytes);
    add(Table::template of<name::act>::at(any), o.model.ffn * element_bytes);
    return bytes;
  });
}

namespace {

std::unique_ptr<training> make_training_of(const training_options& o, const token_stream& data) {
  switch (o.type) {
    case element::f32:
      return make_float_training(o, data);
    case element::bf16:
      return make_bf16_training(o, data);
    case element::f64:
      return make_double_training(o, data);
  }
  throw std::invalid_argument("no such element type");
}

}  // namespace

std::unique_ptr<training> make_training(const training_options& o, const token_stream& data) {
  check(o.model);
  data.check_sequence(o.model.sequence);
  examples::check_batch(o.batch, o.micro_batches);
  std::unique_ptr<training> run = make_training_of(o, data);
  if (o.start != nullptr) run->set_values(*o.start);
  return run;
}

}  // namespace llama
