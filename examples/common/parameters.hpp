#pragma once
// The trained arrays of a model: weights in the element type, and in compute_t gradients, AdamW's two moments and, for
// bf16, the master copy of the weights. Each kind lies in one allocation, all in the same order.

#include "adamw.hpp"
#include "device_array.hpp"
#include "element.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace examples {

enum class parameter_kind {
  matrix,
  norm,  // starts at 1, does not decay
  bias,  // starts at 0; no gradient trains it
};

/// One array, [outputs, inputs] row-major or [inputs]. `offset` in elements from the start of its kind's allocation.
struct parameter {
  std::string name;
  std::size_t offset, outputs, inputs;
  parameter_kind kind;
  double spread;  // standard deviation of a matrix at the start
  [[nodiscard]] std::size_t size() const { return outputs * inputs; }
};

/// Builds a list of parameters: offsets aligned to 256 bytes of bf16, so that each may be an operand of cuBLAS.
class parameter_list {
public:
  /// [outputs, inputs]. Its spread is factor / sqrt(inputs).
  void matrix(const std::string& name, std::size_t outputs, std::size_t inputs, double factor = 1);
  void norm(const std::string& name, std::size_t size) { add(name, 1, size, parameter_kind::norm, 0); }
  void bias(const std::string& name, std::size_t size) { add(name, 1, size, parameter_kind::bias, 0); }

  [[nodiscard]] std::vector<parameter> take() { return std::move(list_); }

private:
  void add(const std::string& name, std::size_t outputs, std::size_t inputs, parameter_kind kind, double spread);
  std::vector<parameter> list_;
  std::size_t offset_ = 0;
};

/// Defined for float, double and bf16.
template <class T>
class trained_arrays {
public:
  using C = compute_t<T>;

  /// Normal deviates from `seed`, the same for every element type. Waits for `stream`.
  trained_arrays(std::vector<parameter> list, std::uint64_t seed, cudaStream_t stream);

  [[nodiscard]] const std::vector<parameter>& list() const { return list_; }

  /// Device memory, laid out as list(). Master values are the weights themselves where T is compute_t<T>.
  [[nodiscard]] T* weight_data() const { return weights_.data(); }
  [[nodiscard]] C* gradient_data() const { return gradients_.data(); }
  [[nodiscard]] C* master_data() const;

  void zero_gradients(cudaStream_t stream) { gradients_.zero(stream); }

  /// One step of AdamW.
  void update(const adamw_options& options, cudaStream_t stream);
  [[nodiscard]] const adamw_step& optimiser_step() const { return step_; }

  /// The following wait for `stream`. Values are the master copy, in the order of list() with its gaps.
  [[nodiscard]] std::vector<C> values(cudaStream_t stream) const;
  [[nodiscard]] std::vector<C> gradient_values(cudaStream_t stream) const { return gradients_.to_host(stream); }
  void set_values(std::span<const C> values, cudaStream_t stream);

private:
  std::vector<parameter> list_;
  device_array<T> weights_;
  device_array<C> gradients_;
  device_array<C> first_;
  device_array<C> second_;
  adamw_step step_;
  std::optional<device_array<C>> master_;  // bf16 only
};

}  // namespace examples
