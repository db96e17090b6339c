#pragma once
// Bytes choose what a trainer does with the library: tensors of all placements and ways to be made, a window, steps in
// straight lines and in one or several coroutines, leases that end in any order, misuse, exceptions. What each tensor
// has to hold is known, so every read is checked, and so are the virtual GPU's findings, what is left behind, and the
// report. Used by the fuzz target, which looks for bytes, and by a test with bytes from a generator.

#include <hostoffload/hostoffload.hpp>
#include <hostoffload/launch.hpp>
#include <hostoffload/virtual_gpu/control.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace library_driver {

namespace ho = hostoffload;
namespace vg = hostoffload::virtual_gpu;

/// The library did what it must not do; the message ends with what led to it.
class violation : public std::logic_error {
public:
  using logic_error::logic_error;
};

/// The bytes, and zeros behind them.
class choices {
public:
  explicit choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool over() const { return next_ >= bytes_.size(); }
  /// Less than `n`, at most 256.
  std::size_t below(std::size_t n) { return over() ? 0 : bytes_[next_++] % n; }
  bool one_in(std::size_t n) { return below(n) == n - 1; }

private:
  std::span<const std::uint8_t> bytes_;
  std::size_t next_ = 0;
};

/// Thrown by the trainer's own code, here and there.
struct trainer_error : std::runtime_error {
  using runtime_error::runtime_error;
};

enum class name { x };
using tensor = ho::offload_tensor<float, ho::any_placement<name::x>>;
using reading = ho::lease<const float>;
using writing = ho::lease<float>;

/// What a kernel saw, to be compared when the device is done.
struct sight {
  std::shared_ptr<std::vector<float>> values;
  float base;
  std::size_t tensor;
};

enum class made { by_hand, by_function, by_coroutine };

struct item {
  std::unique_ptr<tensor> t;
  made how = made::by_hand;
  std::vector<std::size_t> inputs;  // all of them defined, and earlier
  std::size_t partner = 0;          // the other one of a group, or itself
  bool needed = false;              // by a later one, or by its group

  // What the driver knows of the life it is in.
  bool alive = false;
  bool written = false;  // a writable lease is held
  bool dying = false;    // its last use has been asked for
  int leases = 0;
  int lives = 0;
};

/// A lease of the straight-line steps.
struct held {
  std::size_t of;
  std::optional<reading> read;
  std::optional<writing> write;
  cudaStream_t on;
};

class driver {
public:
  explicit driver(std::span<const std::uint8_t> bytes) : in_(bytes) {}

  /// Throws violation.
  void run();
  /// One line for each thing done.
  [[nodiscard]] const std::string& history() const { return history_; }

private:
  // How things are made: element i holds base + i % 8.
  [[nodiscard]] float base(std::size_t i) const;
  void fill(cudaStream_t on, float* out, std::size_t n, float first);
  void combine(float* out, std::size_t n, float plus, const std::vector<std::span<const float>>& inputs);
  void look(const float* from, std::size_t n, cudaStream_t on, std::size_t i);
  void may_throw();
  void note(const std::string& what, std::size_t i, cudaStream_t on);

  void build();
  void build_tensor(std::size_t i, std::size_t count, bool in_step = false);
  void define(std::size_t i);
  void compute_by_hand(std::size_t i, std::span<float> out);
  [[nodiscard]] ho::task<> compute(std::size_t i, std::span<float> out);

  // What is allowed, and what follows from it.
  [[nodiscard]] bool defined(std::size_t i) const { return items_[i].how != made::by_hand; }
  [[nodiscard]] bool may_conflict(std::size_t i) const;
  void make_alive(std::size_t i);
  void lease_ended(std::size_t i);
  void forget_lives();
  [[nodiscard]] std::size_t pick() { return in_.below(items_.size()); }
  [[nodiscard]] cudaStream_t pick_stream() { return in_.one_in(4) ? other_.get() : compute_.get(); }

  bool one_step();
  bool straight_step();  // false: it ended with the error that was due
  bool straight_operation();
  void try_to_produce(std::size_t i);
  void try_to_fetch(std::size_t i, bool last);
  void end_one();
  template <class Call>
  void must_be_refused(const Call& call, const std::string& what);
  [[nodiscard]] ho::task<> one_coroutine();
  [[nodiscard]] ho::task<> one_of_several();
  [[nodiscard]] ho::task<> several_coroutines();
  void replace(std::size_t i, bool in_step);
  void check_step(bool succeeded);
  void check_sights();

  choices in_;
  ho::stream compute_, other_;
  std::size_t window_ = 0;
  std::size_t host_capacity_ = ho::unlimited;
  std::optional<ho::prefetch_scheduler> scheduler_;
  std::vector<item> items_;
  std::vector<held> leases_;
  std::vector<sight> sights_;
  bool scheduler_ends_first_ = false;
  bool replaced_ = false;
  int step_ = 0;
  std::string history_;
  std::size_t throw_in_ = 0;  // calls of may_throw from now; 0: never
};

void run(std::span<const std::uint8_t> bytes);

}  // namespace library_driver
