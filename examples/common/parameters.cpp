#include "parameters.hpp"

#include "random.hpp"

#include <cmath>
#include <type_traits>
#include <utility>

namespace examples {
namespace {

constexpr std::size_t alignment = 128;  // elements; 256 bytes of bf16

std::size_t aligned(std::size_t elements) { return (elements + alignment - 1) / alignment * alignment; }

std::size_t elements(const std::vector<parameter>& list) { return aligned(list.back().offset + list.back().size()); }

template <class T, class C>
void adamw(cudaStream_t stream, const parameter& p, const adamw_options& o, const adamw_step::values* step, T* weights,
           C* master, const C* gradients, C* first, C* second) {
  const C beta1 = static_cast<C>(o.beta1);
  const C beta2 = static_cast<C>(o.beta2);
  const C decay = p.kind == parameter_kind::norm ? C(0) : static_cast<C>(o.weight_decay);
  const C epsilon = static_cast<C>(o.epsilon);
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t i) {
    const C rate = static_cast<C>(step->rate);
    const C correct1 = static_cast<C>(step->correct1);
    const C correct2 = static_cast<C>(step->correct2);
    const C gradient = gradients[i];
    const C mean = beta1 * first[i] + (C(1) - beta1) * gradient;
    const C square = beta2 * second[i] + (C(1) - beta2) * gradient * gradient;
    first[i] = mean;
    second[i] = square;
    const C direction = mean * correct1 / (std::sqrt(square * correct2) + epsilon);
    const C value = master[i] - rate * (direction + decay * master[i]);
    master[i] = value;
    weights[i] = static_cast<T>(value);
  };
  const std::size_t n = p.size();
  ho::launch(
      stream, n, kernel,
      ho::work{.name = "adamw",
               .reads = {range(step, 1), range(gradients, n), range(first, n), range(second, n), range(master, n)},
               .writes = {range(first, n), range(second, n), range(master, n), range(weights, n)}});
}

}  // namespace

void parameter_list::matrix(const std::string& name, std::size_t outputs, std::size_t inputs, double factor) {
  add(name, outputs, inputs, parameter_kind::matrix, factor / std::sqrt(static_cast<double>(inputs)));
}

void parameter_list::add(const std::string& name, std::size_t outputs, std::size_t inputs, parameter_kind kind,
                         double spread) {
  list_.push_back({name, offset_, outputs, inputs, kind, spread});
  offset_ += aligned(outputs * inputs);
}

template <class T>
trained_arrays<T>::trained_arrays(std::vector<parameter> list, std::uint64_t seed, cudaStream_t stream)
    : list_(std::move(list)),
      weights_(elements(list_)),
      gradients_(elements(list_)),
      first_(elements(list_)),
      second_(elements(list_)),
      step_(stream) {
  if constexpr (!std::is_same_v<T, C>) master_.emplace(elements(list_));
  std::vector<C> start(elements(list_));
  for (const parameter& p : list_) {
    random numbers(seed ^ (p.offset * 0x9e3779b97f4a7c15U));
    for (std::size_t i = p.offset; i < p.offset + p.size(); ++i) {
      if (p.kind == parameter_kind::matrix) start[i] = static_cast<C>(p.spread * numbers.normal());
      if (p.kind == parameter_kind::norm) start[i] = C(1);
    }
  }
  set_values(start, stream);
  gradients_.zero(stream);
  first_.zero(stream);
  second_.zero(stream);
}

template <class T>
compute_t<T>* trained_arrays<T>::master_data() const {
  if constexpr (std::is_same_v<T, C>) {
    return weights_.data();
  } else {
    return master_->data();
  }
}

template <class T>
void trained_arrays<T>::update(const adamw_options& options, cudaStream_t stream) {
  step_.advance(options, stream);
  for (const parameter& p : list_) {
    if (p.kind == parameter_kind::bias) continue;
    adamw(stream, p, options, step_.device(), weights_.data() + p.offset, master_data() + p.offset,
          gradients_.data() + p.offset, first_.data() + p.offset, second_.data() + p.offset);
  }
}

template <class T>
std::vector<compute_t<T>> trained_arrays<T>::values(cudaStream_t stream) const {
  if constexpr (std::is_same_v<T, C>) {
    return weights_.to_host(stream);
  } else {
    return master_->to_host(stream);
  }
}

template <class T>
void trained_arrays<T>::set_values(std::span<const C> values, cudaStream_t stream) {
  if constexpr (std::is_same_v<T, C>) {
    weights_.from_host(values, stream);
  } else {
    std::vector<T> rounded(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) rounded[i] = static_cast<T>(values[i]);
    weights_.from_host(rounded, stream);
    master_->from_host(values, stream);
  }
}

template class trained_arrays<float>;
template class trained_arrays<double>;
template class trained_arrays<bf16>;

}  // namespace examples
