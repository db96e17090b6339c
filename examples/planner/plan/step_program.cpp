#include "step_program.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace planner {
namespace {

/// Goes through the record, point by point, and gives each action to the code that does it: the trainer's, a definition
/// that runs for the first time, or one that runs again, which is dropped with all that it needs.
class reader {
public:
  explicit reader(const ho::recorded_step& r) : r_(r), at_(r.segment_s.size() + 1) {
    name_tensors();
    index_events();
    frames_.emplace_back();
    for (std::size_t p = 0; p <= r.segment_s.size(); ++p) {
      pass(static_cast<std::uint32_t>(p));
      if (p < r.segment_s.size()) work(r.segment_s[p]);
    }
    expect_use();
    program_.trainer = std::move(frames_.front().actions);
    program_.seconds = now_;
    end_lives();
    average();
  }
  [[nodiscard]] step_program take() { return std::move(program_); }

private:
  struct frame {
    const ho::recorded_making* making = nullptr;  // null: the trainer's own code
    bool dropped = false;
    std::vector<action> actions{};
    double seconds = 0;
  };
  struct use_of {
    std::uint32_t life = 0;
    std::uint32_t use = 0;
  };
  struct events {
    std::vector<use_of> use_ends, use_begins;
    std::vector<std::size_t> making_ends, making_begins;
    std::vector<std::uint32_t> awaits;  // of what the trainer has a lease on
  };
  struct last_use {
    double begin = 0;
    std::size_t action = 0;  // among the trainer's
    bool by_trainer = false;
    double ended = 0;
  };

  void name_tensors() {
    std::map<std::uint32_t, std::size_t> numbers;
    for (const ho::recorded_life& l : r_.lives) {
      const auto [found, is_new] = numbers.try_emplace(l.tensor, numbers.size());
      tensor_of_.push_back(found->second);
      if (is_new) program_.tensors.push_back({l.name, l.layer, l.bytes, l.placed, {}});
      program_.layers = std::max(program_.layers, l.layer + 1);
      program_.lives.push_back({.tensor = found->second});
    }
    if (program_.tensors.empty()) throw std::invalid_argument("the record tells of no tensor: nothing can be placed");
    last_.resize(r_.lives.size());
    owners_.resize(r_.lives.size());
  }

  void index_events() {
    for (std::size_t m = 0; m < r_.makings.size(); ++m) {
      at_[r_.makings[m].begin].making_begins.push_back(m);
      at_[r_.makings[m].end].making_ends.push_back(m);
    }
    for (std::uint32_t life = 0; life < r_.lives.size(); ++life) {
      const auto& uses = r_.lives[life].uses;
      for (std::uint32_t u = 0; u < uses.size(); ++u) {
        if (is_making(life, uses[u])) continue;
        at_[uses[u].begin].use_begins.push_back({life, u});
        at_[uses[u].end].use_ends.push_back({life, u});
      }
    }
    for (const ho::recorded_making& m : r_.makings) {
      for (const ho::recorded_input& i : m.inputs) {
        const auto& uses = r_.lives[i.life].uses;
        const bool has_own =
            std::any_of(uses.begin(), uses.end(), [&](const ho::recorded_use& u) { return u.begin == i.at; });
        if (!has_own) at_[i.at].awaits.push_back(i.life);
      }
    }
  }
  [[nodiscard]] bool is_making(std::uint32_t life, const ho::recorded_use& u) const {
    return std::any_of(r_.makings.begin(), r_.makings.end(), [&](const ho::recorded_making& m) {
      return m.begin == u.begin && m.end == u.end && std::find(m.makes.begin(), m.makes.end(), life) != m.makes.end();
    });
  }

  void pass(std::uint32_t point) {
    const events& here = at_[point];
    for (const use_of& u : here.use_ends) end_use(u);
    for (std::size_t i = 0; i < here.making_ends.size(); ++i) {
      expect_use();
      end_making();
    }
    if (!here.making_begins.empty()) expect_use();
    for (const std::size_t m : here.making_begins) {
      frames_.push_back({.making = &r_.makings[m], .dropped = frames_.back().dropped || r_.makings[m].again});
      if (frames_.back().dropped) continue;
      for (const std::uint32_t life : r_.makings[m].makes) program_.lives[life].begin = now_;
    }
    for (const std::uint32_t life : here.awaits) frames_.back().actions.push_back(use(life));
    for (const use_of& u : here.use_begins) begin_use(u);
  }

  /// A definition runs because somebody awaits one of its tensors, who has it next.
  void expect_use() const {
    if (just_made_.empty()) return;
    const ho::recorded_life& l = r_.lives[just_made_.front()];
    throw std::invalid_argument("the record has a making of " + l.name + "[" + std::to_string(l.layer) +
                                "] that nobody awaited: a use of what was made begins right behind it");
  }

  [[nodiscard]] action use(std::uint32_t life) const { return {.what = action::kind::use, .tensor = tensor_of_[life]}; }
  void begin_use(const use_of& u) {
    frame& f = frames_.back();
    if (std::find(just_made_.begin(), just_made_.end(), u.life) == just_made_.end()) expect_use();
    just_made_.clear();
    owners_[u.life] = frames_.size() - 1;
    last_use& last = last_[u.life];
    if (!f.dropped) last = {.begin = now_, .action = f.actions.size(), .by_trainer = f.making == nullptr};
    f.actions.push_back(use(u.life));
    if (!f.dropped) ++program_.lives[u.life].uses;
    if (u.use != 0) return;  // the first one makes what was not made by a definition
    if (f.making != nullptr) {
      throw std::invalid_argument("the record has a define function in which " + r_.lives[u.life].name +
                                  " is produced: that cannot be done again");
    }
    f.actions.back().what = action::kind::produce;
    program_.lives[u.life].begin = now_;
  }
  void end_use(const use_of& u) {
    frame& f = frames_.at(std::min(owners_[u.life], frames_.size() - 1));
    f.actions.push_back({.what = action::kind::end_use, .tensor = tensor_of_[u.life]});
    if (f.dropped) return;
    last_[u.life].ended = now_;
    if (u.use == 0) program_.lives[u.life].made = now_;
  }

  void end_making() {
    frame f = std::move(frames_.back());
    frames_.pop_back();
    if (f.dropped) return;
    just_made_ = f.making->makes;
    std::vector<std::size_t> makes;
    for (const std::uint32_t life : f.making->makes) {
      makes.push_back(tensor_of_[life]);
      program_.lives[life].made = now_;
    }
    program_tensor& first = program_.tensors[makes.front()];
    if (!first.made_by) {
      for (const std::size_t t : makes) program_.tensors[t].made_by = program_.definitions.size();
      program_.definitions.push_back({.makes = std::move(makes), .actions = std::move(f.actions)});
    }
    definition& d = program_.definitions[*first.made_by];
    d.seconds += f.seconds;
    ++d.runs;
  }

  void work(double seconds) {
    frame& f = frames_.back();
    if (f.dropped) return;
    now_ += seconds;
    f.seconds += seconds;
    if (seconds == 0) return;
    if (!f.actions.empty() && f.actions.back().what == action::kind::work) {
      f.actions.back().seconds += seconds;
    } else {
      f.actions.push_back({.what = action::kind::work, .seconds = seconds});
    }
  }

  void end_lives() {
    for (std::size_t life = 0; life < last_.size(); ++life) {
      life_span& l = program_.lives[life];
      const last_use& last = last_[life];
      const bool ended = r_.lives[life].ended;
      l.last_use = std::max(last.begin, l.made);
      l.end = ended ? std::max(last.ended, l.made) : now_;
      if (ended && last.by_trainer) program_.trainer[last.action].last = true;
    }
  }
  /// One run stands for all: with the mean of their times.
  void average() {
    for (definition& d : program_.definitions) {
      const double mean = d.seconds / static_cast<double>(d.runs);
      double first = 0;
      for (const action& a : d.actions) first += a.seconds;
      if (first > 0) {
        for (action& a : d.actions) a.seconds *= mean / first;
      } else if (mean > 0) {
        d.actions.push_back({.what = action::kind::work, .seconds = mean});
      }
      d.seconds = mean;
    }
  }

  const ho::recorded_step& r_;
  std::vector<events> at_;
  std::vector<frame> frames_;
  std::vector<std::size_t> tensor_of_;    // by life
  std::vector<last_use> last_;            // by life
  std::vector<std::uint32_t> just_made_;  // lives
  std::vector<std::size_t> owners_;       // by life: the frame of the use that is open
  step_program program_;
  double now_ = 0;
};

}  // namespace

step_program program_of(const ho::recorded_step& r) { return reader(r).take(); }

}  // namespace planner
