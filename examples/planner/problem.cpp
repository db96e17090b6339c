#include "problem.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace planner {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument("planner: " + what); }

void check_number(const char* what, double value, double least) {
  if (!std::isfinite(value) || value < least) fail(std::string(what) + " is " + std::to_string(value));
}

}  // namespace

void check(const problem& p) {
  if (p.layers == 0 || p.names.empty()) fail("a step without layers or without names has nothing to place");
  if (p.bytes.size() != p.layers * p.names.size()) {
    fail(std::to_string(p.bytes.size()) + " sizes are given for " + std::to_string(p.names.size()) + " names in " +
         std::to_string(p.layers) + " layers");
  }
  for (const auto& [what, value] : {std::pair{"forward_s", p.forward_s},
                                    {"backward_s", p.backward_s},
                                    {"lead_s", p.lead_s},
                                    {"tail_s", p.tail_s}}) {
    check_number(what, value, 0);
  }
  for (const auto& [what, value] : {std::pair{"to_host", p.to_host}, {"to_device", p.to_device}, {"work", p.work}}) {
    check_number(what, value, std::numeric_limits<double>::min());
  }
  const auto title = [&p](cell c) { return p.names[c.name].text + " of layer " + std::to_string(c.layer); };
  const auto exists = [&p](cell c) { return c.name < p.names.size() && c.layer < p.layers; };
  std::vector<std::size_t> made(p.bytes.size(), 0);
  for (const making& m : p.makings) {
    check_number("a definition's time", m.seconds, 0);
    for (const cell c : m.makes) {
      if (!exists(c)) fail("a definition makes a tensor that there is not");
      if (++made[p.at(c)] > 1) fail(title(c) + " is made by two definitions");
    }
  }
  for (std::size_t name = 0; name < p.names.size(); ++name) {
    const permitted_choices& may = p.names[name].may;
    if (!may.save && !may.offload && !may.remat) fail(p.names[name].text + " permits no choice");
    for (std::size_t layer = 0; may.remat && layer < p.layers; ++layer) {
      const cell c{name, layer};
      if (p.bytes_of(c) > 0 && made[p.at(c)] == 0) fail(title(c) + " may be remat, but nothing makes it again");
    }
  }
}

}  // namespace planner
