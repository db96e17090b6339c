#pragma once
// The device that a program measures its runs on: the current GPU (device_cuda.cpp), or a virtual one as described
// (device_virtual.cpp).

#include <hostoffload/launch.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace examples {

namespace ho = hostoffload;

/// The names that device_request::machine takes; none on a GPU, which is what it is.
std::vector<std::string> machine_names();

/// What a virtual GPU is to be; a GPU uses `element_bytes`, `hidden` and `sequence` for nothing.
struct device_request {
  std::string machine;       // of machine_names()
  std::size_t scale_to = 0;  // hidden size that `hidden` stands for; 0: a full-size machine
  std::size_t hidden = 0;    // of the model
  std::size_t sequence = 0;  // tokens
  std::size_t element_bytes = 2;
  ho::precision products = ho::precision::bf16;  // of the model's matrix products
};

class device {
public:
  enum class variant { as_it_is, unlimited_memory, infinitely_fast_link };

  /// Throws ho::cuda_error on a GPU that does not answer.
  explicit device(const device_request& request);

  /// Whether runs can have the variant: a virtual GPU has all, a GPU only as_it_is.
  [[nodiscard]] bool has(variant v) const;

  /// Begins a run on a device that nobody else has used: only when nothing of an earlier run is alive.
  void begin(variant v = variant::as_it_is);

  /// Seconds, of the host's clock on a GPU, else virtual ones. For when the device has done what it was given.
  [[nodiscard]] double now() const;

  /// Device memory of the run at its most. On a GPU: in use now and not when it began, so by the whole process.
  [[nodiscard]] std::size_t peak_bytes() const;

  /// Throws std::logic_error where the virtual GPU found a fault in the run.
  void check_faults() const;

  [[nodiscard]] std::size_t memory_bytes() const;
  /// Arithmetic rate of the full-size machine over that of this one.
  [[nodiscard]] double compute_factor() const;

  /// Lines that say what it is, each with its end; and the same as a JSON object.
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] std::string json() const;

private:
  device_request request_;
  std::size_t used_before_ = 0;
};

}  // namespace examples
