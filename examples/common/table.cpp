#include "table.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace examples {
namespace {

double mib(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

/// "q k v", or where a plan has both kinds, "q k v, remat act".
std::string put_away(const example& of, std::size_t placement) {
  const std::string offloaded = of.tensors(placement, ho::choice::offload);
  const std::string dropped = of.tensors(placement, ho::choice::remat);
  if (offloaded.empty()) return dropped.empty() ? "none" : dropped;
  return dropped.empty() ? offloaded : offloaded + ", remat " + dropped;
}

std::string_view bits(const std::optional<bool>& equal) {
  if (!equal) return "not known";
  return *equal ? "equal" : "DIFFERENT";
}

}  // namespace

std::string describe(const example& of, const options& o, const device& on) {
  return fmt::format("{}, {}; {} steps of AdamW\n{}", of.describe(), to_string(o.run.type), o.steps, on.describe());
}

std::string table(const example& of, const std::vector<row>& rows, const device& on) {
  std::size_t width = 0;
  for (const row& r : rows) width = std::max(width, put_away(of, r.placement).size());
  std::string text =
      fmt::format("{:>5}  {:<13}  {:<{}}  {:>7}  {:>14}  {:>7}  {:>7}  {:>7}  {:>8}  {:>10}  {}\n", "batch",
                  "placement", "tensors put away", std::max<std::size_t>(width, 16), "step ms", "TFLOP/s/device",
                  "at full", "exposed", "GPU MiB", "host MiB", "final loss", "bits of save");
  std::size_t batch = 0;
  for (const row& r : rows) {
    if (batch != 0 && batch != r.batch) text += "\n";
    batch = r.batch;
    text += fmt::format("{:>5}  {:<13}  {:<{}}  ", r.batch, of.placements.at(r.placement), put_away(of, r.placement),
                        std::max<std::size_t>(width, 16));
    if (r.fits) {
      text +=
          fmt::format("{:>7.4f}  {:>14.2f}  {:>7.0f}  {:>5.2f} %  {:>7.2f}  {:>8.2f}  {:>10.6f}  {}\n", r.step_s * 1e3,
                      r.tflops_per_device, r.tflops_per_device * on.compute_factor(), 100 * r.exposed_s / r.step_s,
                      mib(r.gpu_peak_bytes), mib(r.host_bytes), r.final_loss, bits(r.bitwise_equal_to_save));
    } else {
      text += fmt::format("out of memory: {:.2f} MiB are missing\n", mib(r.missing_bytes));
    }
  }
  return text;
}

std::string json(const example& of, const std::vector<row>& rows, const device& on) {
  nlohmann::ordered_json all;
  all["machine"] = nlohmann::ordered_json::parse(on.json());
  all["rows"] = nlohmann::ordered_json::array();
  for (const row& r : rows) {
    nlohmann::ordered_json line{{"placement", of.placements.at(r.placement)}, {"batch", r.batch}, {"fits", r.fits}};
    if (r.fits) {
      line["step_s"] = r.step_s;
      line["tflops_per_device"] = r.tflops_per_device;
      line["exposed_s"] = r.exposed_s;
      line["gpu_peak_bytes"] = r.gpu_peak_bytes;
      line["host_bytes"] = r.host_bytes;
      line["final_loss"] = r.final_loss;
      line["bitwise_equal_to_save"] = nullptr;
      if (r.bitwise_equal_to_save) line["bitwise_equal_to_save"] = *r.bitwise_equal_to_save;
    } else {
      line["missing_bytes"] = r.missing_bytes;
    }
    all["rows"].push_back(line);
  }
  return all.dump(2) + "\n";
}

}  // namespace examples
