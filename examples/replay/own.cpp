#include "own.hpp"

#include "arithmetic.hpp"
#include "words.hpp"

namespace replay {
namespace {

struct candidate {
  std::string name;
  placements placed;
};

tensor_set tensors_of(const model& m) {
  tensor_set all;
  for (const tensor t : all_tensors) {
    if (tensor_bytes(m, 0, t, 1) + tensor_bytes(m, m.layers - 1, t, 1) > 0) all.add(t);
  }
  return all;
}

std::vector<candidate> candidates(const description& d) {
  const tensor_set all = tensors_of(d.what);
  tensor_set inputs_too = d.how.offload;
  inputs_too.add(tensor::input);
  return {{"save", place(all, ho::choice::save)},
          {"save some", place(d.how.offload, ho::choice::save)},
          {"offload all", place(all, ho::choice::offload)},
          {"offload some", place(d.how.offload, ho::choice::offload)},
          {"offload more", place(inputs_too, ho::choice::offload)},
          {"remat", place({}, ho::choice::remat)}};
}

std::string names(const model& m, const placements& placed, ho::choice chosen) {
  const tensor_set all = tensors_of(m);
  std::string text;
  for (const tensor t : all_tensors) {
    if (!all.has(t) || placed[index_of(t)] != chosen) continue;
    append(text, to_string(t), " ");
  }
  return text;
}

std::string put_away(const model& m, const placements& placed) {
  const std::string offloaded = names(m, placed, ho::choice::offload);
  const std::string saved = names(m, placed, ho::choice::save);
  const std::string dropped = names(m, placed, ho::choice::remat);
  std::string text;
  if (!offloaded.empty()) append(text, "offload " + offloaded, ", ");
  if (!saved.empty()) append(text, offloaded.empty() && dropped.empty() ? "save all" : "save " + saved, ", ");
  if (!dropped.empty()) append(text, "remat the rest", ", ");
  return text;
}

}  // namespace

std::vector<own_row> compare(const description& d, const vgpu::machine& machine, double window_layers,
                             const assumptions& with) {
  const vgpu::machine here = as_rank(machine, with);
  std::vector<own_row> rows;
  for (const candidate& c : candidates(d)) {
    run_options o{d,
                  c.placed,
                  {.window_layers = window_layers, .buffers = static_cast<std::size_t>(with.look_ahead_buffers)},
                  with};
    const std::string text = put_away(d.what, c.placed);
    rows.push_back({c.name, text, d.how.micro_batch, false, step(here, o)});
    if (!rows.back().simulated.fits) {
      o.of.how.micro_batch = 1;
      if (d.how.micro_batch == 1) continue;
    }
    const auto found = find_largest_batch(here, o);
    if (found && found->micro_batch != d.how.micro_batch) {
      rows.push_back({c.name, text, found->micro_batch, true, found->simulated});
    }
  }
  return rows;
}

}  // namespace replay
