#pragma once
// A recorded step as what its host code does, whatever the placement: recomputation that was recorded is left out.

#include <hostoffload/placement.hpp>
#include <hostoffload/schedule/recorded_step.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace planner {

namespace ho = hostoffload;

struct action {
  enum class kind : std::uint8_t {
    work,     ///< the compute stream is busy for `seconds`
    produce,  ///< a writable lease of `tensor` begins; only the trainer's own code has these
    use,      ///< a lease for reading begins, and with it whatever makes the tensor
    end_use   ///< of either
  };
  kind what = kind::work;
  std::size_t tensor = 0;
  double seconds = 0;
  bool last = false;  ///< of a use: its end gives the memory back

  friend bool operator==(const action&, const action&) = default;
};

/// A define function. Where the step runs it several times, as with micro batches, it takes its mean time.
struct definition {
  std::vector<std::size_t> makes;  ///< tensors
  std::vector<action> actions;     ///< what is still in use at the end is over then
  double seconds = 0;              ///< of its own work
  std::size_t runs = 0;            ///< in a step, without recomputation
};

struct program_tensor {
  std::string name;
  std::size_t layer = 0;
  std::size_t bytes = 0;
  ho::choice placed = ho::choice::save;  ///< when it was recorded
  std::optional<std::size_t> made_by;    ///< definition; nothing: it is produced, and cannot be made again
};

/// Seconds of the compute stream from the step's begin, without recomputation.
struct life_span {
  std::size_t tensor = 0;
  double begin = 0;  ///< of what makes it
  double made = 0;
  double last_use = 0;  ///< its begin
  double end = 0;       ///< of the last use, or of the step
  std::size_t uses = 0;
};

struct step_program {
  std::vector<program_tensor> tensors;
  std::vector<definition> definitions;
  std::vector<action> trainer;  ///< what is not done by definitions
  std::vector<life_span> lives;
  double seconds = 0;  ///< of all work, each definition run as often as its values are first needed
  std::size_t layers = 0;
};

/// `r` is as read_record() leaves it. Throws std::invalid_argument, one line, for a record that tells of no tensor.
[[nodiscard]] step_program program_of(const ho::recorded_step& r);

}  // namespace planner
