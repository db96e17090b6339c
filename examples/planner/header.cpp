#include "header.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace planner {
namespace {

void check_identifier(const std::string& name) {
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0 || c == '_'; };
  const bool good = !name.empty() && is_letter(static_cast<unsigned char>(name.front())) &&
                    std::all_of(name.begin(), name.end(), [&](char c) {
                      const auto u = static_cast<unsigned char>(c);
                      return is_letter(u) || std::isdigit(u) != 0;
                    });
  if (!good) throw std::invalid_argument("a placement table names enumerators: " + name + " is no identifier");
}

std::string rule_of(ho::choice chosen) { return "hostoffload::" + std::string(ho::to_string(chosen)) + "_these"; }

/// A bound between two layers, from the nearer end; what comes last ends with the model.
std::string bound(std::size_t layer, std::size_t layers) {
  if (layer == layers) return "hostoffload::end";
  const auto from_start = static_cast<std::int64_t>(layer);
  const std::int64_t from_end = static_cast<std::int64_t>(layers) - from_start;
  return std::to_string(from_start <= from_end ? from_start : -from_end);
}

}  // namespace

std::string placement_header(const problem& p, const mix& m, const std::vector<std::string>& notes) {
  // Names with the same choice in the same layers share a rule.
  std::vector<std::pair<layer_choice, std::string>> rules;
  for (std::size_t name = 0; name < p.names.size(); ++name) {
    check_identifier(p.names[name].text);
    for (const layer_choice& range : m.ranges(name)) {
      const auto known =
          std::find_if(rules.begin(), rules.end(), [&](const auto& rule) { return rule.first == range; });
      const std::string enumerator = "Name::" + p.names[name].text;
      if (known == rules.end()) {
        rules.emplace_back(range, enumerator);
      } else {
        known->second += ", " + enumerator;
      }
    }
  }

  std::string text = "#pragma once\n";
  for (const std::string& note : notes) text += "// " + note + "\n";
  text +=
      "\n#include <hostoffload/placement.hpp>\n\n"
      "// clang-format off\n"
      "template <class Name>\n"
      "using planned_placement = hostoffload::placement<\n    Name";
  for (const auto& [range, enumerators] : rules) {
    const std::string rule = rule_of(range.chosen) + "<" + enumerators + ">";
    const bool everywhere = range.first == 0 && range.last == m.layers();
    text += ",\n    ";
    text += everywhere ? rule
                       : "hostoffload::on_layers<" + bound(range.first, m.layers()) + ", " +
                             bound(range.last, m.layers()) + ", " + rule + ">";
  }
  return text + ">;\n";
}

}  // namespace planner
