#pragma once
// An example as its program sees it: a model with its sizes, its placements, and how to train it.

#include "checkpoint.hpp"
#include "tokens.hpp"
#include "training.hpp"

#include <hostoffload/placement.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 names it
class App;
}

namespace examples {

class example {
public:
  struct texts {
    std::string name;         // of the program
    std::string model;        // "a small Llama"
    std::string placements;   // what the choices of --placement are
    std::size_t full_hidden;  // that --hidden stands for
    bool may_be_captured;     // in a graph: no step reads values on the host
  };

  example(texts words, std::vector<std::string> placement_names)
      : text(std::move(words)), placements(std::move(placement_names)) {}
  example(const example&) = delete;
  example& operator=(const example&) = delete;
  virtual ~example() = default;

  const texts text;
  const std::vector<std::string> placements;  // numbered below; 0 is save

  /// Adds the options of the model's sizes, and what else it has of its own.
  virtual void add_options(CLI::App& app) = 0;
  /// Throws std::invalid_argument with one line where they do not fit together.
  virtual void check_options() const = 0;

  [[nodiscard]] virtual std::size_t hidden() const = 0;
  [[nodiscard]] virtual std::size_t sequence() const = 0;
  [[nodiscard]] virtual std::size_t vocabulary() const = 0;
  /// "Llama: 8 layers, hidden 128", and so on.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// That a training step over so many tokens counts for.
  [[nodiscard]] virtual double flops(std::size_t tokens) const = 0;
  [[nodiscard]] virtual checkpoint_format layout() const = 0;

  /// The tensors for which a placement makes this choice, as "q k v".
  [[nodiscard]] virtual std::string tensors(std::size_t placement, ho::choice wanted) const = 0;
  /// Of one micro batch.
  [[nodiscard]] virtual std::size_t offloaded_per_layer(const run_options& run, std::size_t placement) const = 0;
  /// `data` must outlive the run. Throws ho::out_of_memory.
  [[nodiscard]] virtual std::unique_ptr<training> make(const run_options& run, std::size_t placement,
                                                       const token_stream& data) const = 0;
};

/// `Options` is a run_options with `model`, the sizes, and `placement`, an enumeration. The functions that are called
/// here stand in their namespace.
template <class Options>
class example_of : public example {
public:
  using plan = decltype(Options::placement);

  template <class Plans>
  example_of(texts words, const Plans& plans)
      : example(std::move(words), names_of(plans)), plans_(plans.begin(), plans.end()) {}

  void check_options() const override { check(options.model); }
  [[nodiscard]] std::size_t hidden() const override { return options.model.hidden; }
  [[nodiscard]] std::size_t sequence() const override { return options.model.sequence; }
  [[nodiscard]] std::size_t vocabulary() const override { return options.model.vocabulary; }
  [[nodiscard]] double flops(std::size_t tokens) const override { return step_flops(options.model, tokens); }
  [[nodiscard]] checkpoint_format layout() const override { return format_of(options.model); }
  [[nodiscard]] std::string tensors(std::size_t placement, ho::choice wanted) const override {
    return names_with(plans_.at(placement), wanted);
  }
  [[nodiscard]] std::size_t offloaded_per_layer(const run_options& run, std::size_t placement) const override {
    return offloaded_bytes_per_layer(with(run, placement));
  }
  [[nodiscard]] std::unique_ptr<training> make(const run_options& run, std::size_t placement,
                                               const token_stream& data) const override {
    return make_training(with(run, placement), data);
  }

protected:
  Options options;  // set by add_options

private:
  template <class Plans>
  static std::vector<std::string> names_of(const Plans& plans) {
    std::vector<std::string> names;
    for (const plan p : plans) names.emplace_back(to_string(p));
    return names;
  }

  [[nodiscard]] Options with(const run_options& run, std::size_t placement) const {
    Options o = options;
    static_cast<run_options&>(o) = run;
    o.placement = plans_.at(placement);
    return o;
  }

  std::vector<plan> plans_;
};

}  // namespace examples
