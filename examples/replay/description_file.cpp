#include "description_file.hpp"

#include "arithmetic.hpp"
#include "fields.hpp"
#include "words.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace replay {
namespace {

namespace vgpu = hostoffload::virtual_gpu;

nlohmann::json read_json(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw std::runtime_error(path + ": is a folder; give a file");
  errno = 0;
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be opened: " + std::strerror(errno != 0 ? errno : EIO));
  try {
    return nlohmann::json::parse(file);
  } catch (const nlohmann::json::parse_error& e) {
    throw std::runtime_error(path + ": is no JSON: at byte " + std::to_string(e.byte));
  }
}

ho::precision read_precision(fields& f, const char* name) {
  constexpr std::array kinds{ho::precision::bf16, ho::precision::fp8, ho::precision::fp4};
  return kinds.at(f.word(name, {"bf16", "fp8", "fp4"}));
}

void read_attention(fields f, model& m) {
  if (f.word("kind", {"grouped", "latent"}) == 0) {
    grouped_attention a;
    a.heads = f.count("heads");
    a.kv_heads = f.count("kv_heads");
    a.head_size = f.count("head_size");
    a.head_norms = f.flag_or("head_norms", false);
    if (a.heads % a.kv_heads != 0) {
      f.fail("kv_heads", std::to_string(a.kv_heads) + " does not divide heads, " + std::to_string(a.heads));
    }
    m.grouped = a;
  } else {
    latent_attention a;
    a.heads = f.count("heads");
    a.q_rank = f.count("q_rank");
    a.kv_rank = f.count("kv_rank");
    a.nope_size = f.count("nope_size");
    a.rope_size = f.count("rope_size");
    a.value_size = f.count("value_size");
    m.latent = a;
  }
  f.finish();
}

void read_experts(fields f, model& m) {
  experts e;
  e.count = f.count("count");
  e.top_k = f.count("top_k");
  e.shared = f.count_or("shared", 0);
  e.width = f.count("width");
  e.dense_layers = f.count_or("dense_layers", 0);
  e.bias = f.flag_or("bias", false);
  if (e.top_k > e.count) {
    f.fail("top_k", std::to_string(e.top_k) + " is more than count, " + std::to_string(e.count));
  }
  if (e.dense_layers >= m.layers) {
    f.fail("dense_layers", std::to_string(e.dense_layers) + " leaves no layer of " + std::to_string(m.layers) +
                               " for experts: leave out experts");
  }
  f.finish();
  m.moe = e;
}

model read_model(fields f) {
  model m;
  m.name = f.text("name");
  m.layers = f.count("layers");
  m.hidden = f.count("hidden");
  m.vocabulary = f.count("vocabulary");
  m.tied = f.flag_or("tied", false);
  read_attention(f.object("attention"), m);
  if (f.has("experts")) read_experts(f.object("experts"), m);
  const bool dense = !m.moe || m.moe->dense_layers > 0;
  if (!dense && f.has("feed_forward")) {
    f.fail("feed_forward", "every layer has experts: set experts.dense_layers, or leave this out");
  }
  if (dense) m.ffn = f.count("feed_forward");
  f.finish();
  return m;
}

tensor_set read_offload(fields& f, const model& m) {
  tensor_set set;
  for (const std::string& name : f.texts("offload")) {
    bool known = false;
    for (const tensor t : all_tensors) {
      if (to_string(t) != name) continue;
      known = true;
      if (tensor_bytes(m, m.layers - 1, t, 1) == 0) f.fail("offload", "the model has no tensor " + name);
      set.add(t);
    }
    if (!known) {
      std::string all;
      for (const tensor t : all_tensors) append(all, to_string(t), " ");
      f.fail("offload", name + " is none of " + all);
    }
  }
  if (set.empty()) f.fail("offload", "name a tensor");
  return set;
}

layout read_layout(fields f, const model& m) {
  layout l;
  const std::size_t devices = f.count("devices");
  l.fsdp = f.count("fsdp");
  l.expert_parallel = f.has("expert_parallel") ? f.count("expert_parallel") : 1;
  if (devices != l.devices()) {
    f.fail("devices", std::to_string(devices) + " is not fsdp x expert_parallel, " + std::to_string(l.devices()));
  }
  if (l.expert_parallel > 1 && !m.moe) f.fail("expert_parallel", "the model has no experts");
  if (m.moe && m.moe->count % l.expert_parallel != 0) {
    f.fail("expert_parallel",
           std::to_string(l.expert_parallel) + " does not divide the " + std::to_string(m.moe->count) + " experts");
  }
  l.sequence = f.count("sequence");
  l.micro_batch = f.count("micro_batch");
  l.products = read_precision(f, "matrix_type");
  l.gathered = read_precision(f, "gather_type");
  if (element_bytes(l.gathered) < element_bytes(l.products)) {
    f.fail("gather_type", "weights cannot travel in fewer bits than matrix_type multiplies");
  }
  l.weight_bytes = f.count("weight_bytes");
  l.moment_bytes = f.count("moment_bytes");
  l.gradient_bytes = f.count("gradient_bytes");
  l.offload = read_offload(f, m);
  f.finish();
  return l;
}

/// A number of the file in place of the machine's, in units of `unit`.
void change(fields& f, const char* name, vgpu::sourced& value, double unit) {
  if (f.has(name)) value = {f.number(name) * unit, "machine file"};
}

}  // namespace

described_run load_description(const std::string& path) {
  const nlohmann::json whole = read_json(path);
  fields f(path, "", whole);
  described_run run;
  static_cast<void>(f.text("source"));  // for the reader
  run.of.what = read_model(f.object("model"));
  run.of.how = read_layout(f.object("layout"), run.of.what);
  run.machine = f.text("machine");
  run.of.matrix_share = f.number_or("matrix_share", 1);
  if (run.of.matrix_share > 1) f.fail("matrix_share", "is a share of the machine's rate: at most 1");
  run.of.fixed_seconds = f.number_or("fixed_seconds", 0);
  f.finish();
  return run;
}

vgpu::machine load_machine(const std::string& name_or_path) {
  for (const std::string& known : vgpu::machine_names()) {
    if (known == name_or_path) return vgpu::machine_named(known);
  }
  if (!std::filesystem::exists(name_or_path)) {
    std::string all;
    for (const std::string& known : vgpu::machine_names()) append(all, known, ", ");
    throw std::runtime_error(name_or_path + ": is no file, and none of the machines " + all);
  }
  const nlohmann::json whole = read_json(name_or_path);
  fields f(name_or_path, "", whole);
  const std::string base = f.text("base");
  vgpu::machine m;
  try {
    m = vgpu::machine_named(base);
  } catch (const std::invalid_argument& e) {
    f.fail("base", e.what());
  }
  m.name = f.text("name");
  constexpr double giga = 1e9;
  constexpr double tera = 1e12;
  constexpr double gibi = 1024.0 * 1024 * 1024;
  change(f, "device_memory_gib", m.device_memory, gibi);
  change(f, "host_memory_gib", m.host_memory, gibi);
  if (f.has("devices_per_host")) m.devices_per_host = static_cast<int>(f.count("devices_per_host"));
  change(f, "bf16_tflops", m.compute[hostoffload_bf16], tera);
  change(f, "fp8_tflops", m.compute[hostoffload_fp8], tera);
  change(f, "fp4_tflops", m.compute[hostoffload_fp4], tera);
  change(f, "hbm_gb_s", m.hbm, giga);
  change(f, "nvlink_gb_s", m.peer, giga);
  change(f, "to_device_gb_s", m.link.to_device, giga);
  change(f, "to_host_gb_s", m.link.to_host, giga);
  change(f, "both_ways_gb_s", m.link.both, giga);
  change(f, "all_devices_to_device_gb_s", m.link.all_to_device, giga);
  change(f, "all_devices_to_host_gb_s", m.link.all_to_host, giga);
  change(f, "all_devices_both_gb_s", m.link.all_both, giga);
  f.finish();
  return m;
}

}  // namespace replay
