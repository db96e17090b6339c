#pragma once
// Bytes choose what a trainer does with the library: tensors of all placements, sizes and ways to be made, a window,
// steps in straight lines and in one or several coroutines, leases that end in any order, misuse, exceptions. Steps are
// repeated, so that they are recorded, planned and follow their plan; they depart from it and go back to it, are
// captured, and launched among others. What each tensor has to hold is known, so every read is checked, and so are the
// virtual GPU's findings, what is left behind, the report, and the record. Used by the fuzz target, which looks for
// bytes, and by a test with bytes from a generator.
//
// library_driver.cpp builds tensors and checks; library_steps.cpp has what steps do, library_repeats.cpp what is done
// with whole steps.

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
  /// Read so far.
  [[nodiscard]] std::size_t position() const { return next_; }
  [[nodiscard]] std::vector<std::uint8_t> since(std::size_t position) const {
    return {bytes_.begin() + static_cast<std::ptrdiff_t>(position),
            bytes_.begin() + static_cast<std::ptrdiff_t>(next_)};
  }

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

/// What a kernel saw, to be compared when the device is done. In a launch of a captured step each value is `inputs`
/// times what was given to that launch larger.
struct sight {
  std::shared_ptr<std::vector<float>> values;
  float base;
  float inputs;
  std::size_t tensor;
};

/// How often the driver came to what only some bytes lead to.
struct tally {
  std::size_t planned = 0;   // steps that followed a plan to its end
  std::size_t departed = 0;  // that left it
  std::size_t launches = 0;
  std::size_t stale = 0;  // launches refused
  std::size_t resized = 0;
  std::size_t records = 0;  // read back
  std::size_t fallen_back = 0;
  std::size_t chosen = 0;  // steps in which a plan's choice has tensors made again
  tally& operator+=(const tally& other);
};

enum class made { by_hand, by_function, by_coroutine };

struct item {
  std::unique_ptr<tensor> t;
  made how = made::by_hand;
  std::vector<std::size_t> inputs;  // all of them defined, and earlier
  std::size_t partner = 0;          // the other one of a group, or itself
  bool needed = false;              // by a later one, or by its group
  ho::choice wanted = ho::choice::save;
  std::size_t shrinks = 0;  // unless 0 its define function makes it smaller, in each step to another size

  // What the driver knows of the life it is in.
  bool alive = false;
  bool written = false;  // a writable lease is held
  bool dying = false;    // its last use has been asked for
  int leases = 0;
  int lives = 0;
  std::size_t asked = 0;  // elements, by resize before its life; 0: what it was built for
  std::size_t size = 0;   // elements of its life, once known
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
  [[nodiscard]] const tally& seen() const { return seen_; }

private:
  // How things are made: element i holds base + i % 8.
  [[nodiscard]] float base(std::size_t i) const;
  [[nodiscard]] float inputs_of(std::size_t i) const;
  void fill(cudaStream_t on, float* out, std::size_t n, float first, float inputs);
  void combine(float* out, std::size_t n, float plus, const std::vector<std::span<const float>>& inputs);
  void look(const float* from, std::size_t n, cudaStream_t on, std::size_t i);
  void may_throw();
  void note(const std::string& what, std::size_t i, cudaStream_t on);

  void build();
  void build_tensor(std::size_t i, std::size_t count, bool in_step = false);
  void define(std::size_t i);
  void make(std::size_t i, std::span<float> out, float plus, const std::vector<std::span<const float>>& inputs);
  void compute_by_hand(std::size_t i, std::span<float> out);
  [[nodiscard]] ho::task<> compute(std::size_t i, std::span<float> out);

  // What is allowed, and what follows from it.
  [[nodiscard]] bool defined(std::size_t i) const { return items_[i].how != made::by_hand; }
  [[nodiscard]] bool may_conflict(std::size_t i) const;
  void make_alive(std::size_t i);
  [[nodiscard]] std::size_t smaller(std::size_t i) const;
  void check_size(std::size_t i, std::size_t elements);
  [[nodiscard]] bool may_be_produced(std::size_t i) const;
  [[nodiscard]] std::size_t room_of(std::size_t i) const;
  void lease_ended(std::size_t i);
  void forget_lives();
  [[nodiscard]] std::size_t pick() { return in_.below(items_.size()); }
  [[nodiscard]] cudaStream_t pick_stream() { return in_.one_in(4) ? other_.get() : compute_.get(); }

  // What steps do.
  enum class kind : std::uint8_t { straight, one_coroutine, several_coroutines, trainer, trainer_coroutine };
  void straight();
  bool straight_operation();
  void straight_trainer();
  template <class Call>
  void attempt(std::size_t i, const Call& call);
  void end_straight();
  void try_to_produce(std::size_t i);
  void try_to_fetch(std::size_t i, bool last);
  void try_to_resize(std::size_t i);
  void end_one();
  void be_busy(cudaStream_t on);
  template <class Call>
  void must_be_refused(const Call& call, const std::string& what);
  [[nodiscard]] ho::task<> coroutine(kind k);
  [[nodiscard]] ho::task<> one_coroutine();
  [[nodiscard]] ho::task<> trainer_coroutine();
  [[nodiscard]] ho::task<> one_of_several();
  [[nodiscard]] ho::task<> several_coroutines();
  void replace(std::size_t i, bool in_step);

  // Whole steps.
  enum class ending : std::uint8_t { good, failed, no_more };  // no_more: no step is possible any more
  ending one_step();
  ending play(bool capture);
  template <class Step>
  ending end_of(kind k, const Step& step);
  ending repeat(const std::vector<std::uint8_t>& script);
  ending play_again(std::vector<std::uint8_t> script, bool capture);
  void launch();
  void check_step(bool succeeded);
  void check_record();
  void check_sights();
  static void check_sight(const sight& s, float input);

  choices in_;
  ho::stream compute_, other_;
  std::optional<ho::device_allocation> input_;  // a number that captured steps add where a tensor is made of nothing
  std::size_t window_ = 0;
  std::size_t host_capacity_ = ho::unlimited;
  bool plans_ = false;
  bool mostly_either_ = false;  // most tensors are offload_or_remat, defined, and alike: a few fill the window
  std::size_t most_bytes_ = 0;  // then of each
  std::optional<ho::step_graph> graph_;
  std::optional<ho::prefetch_scheduler> scheduler_;
  std::vector<item> items_;
  std::vector<held> leases_;
  bool leases_are_left_ = false;  // to the end of the step, which has to refuse that
  std::vector<sight> sights_;
  std::vector<sight> graph_sights_;
  std::optional<float> launched_with_;  // and not checked yet
  bool capturing_ = false;
  bool must_be_stale_ = false;  // the graph
  bool scheduler_ends_first_ = false;
  bool replaced_ = false;
  tally seen_;
  int step_ = 0;
  std::string history_;
  std::size_t throw_in_ = 0;  // calls of may_throw from now; 0: never
};

tally run(std::span<const std::uint8_t> bytes);

[[noreturn]] void fail(const std::string& what);

}  // namespace library_driver
